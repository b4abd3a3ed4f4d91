import { useSyncExternalStore } from "react";

/** A window of phone width: side panels become drawers and sheets. app.css has the same number. */
const query = "(max-width: 860px)";

function subscribe(update: () => void): () => void {
  const media = window.matchMedia(query);
  media.addEventListener("change", update);
  return () => media.removeEventListener("change", update);
}

export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => window.matchMedia(query).matches);
}

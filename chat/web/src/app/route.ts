// The page's routes: `/` for a new chat, `/c/<id>` for a stored one. A temporary chat has no URL, because a reload
// could not restore it.
import { create } from "zustand";

export type Route = { name: "home" } | { name: "chat"; id: string } | { name: "temporary"; id: string };

const CHAT_PATH = /^\/c\/([A-Za-z0-9_-]{1,64})\/?$/;

export function routeOf(path: string, state: unknown): Route {
  const id = CHAT_PATH.exec(path)?.[1];
  if (id) return { name: "chat", id };
  const temporary = typeof state === "object" && state !== null && "temporary" in state ? state.temporary : null;
  return typeof temporary === "string" ? { name: "temporary", id: temporary } : { name: "home" };
}

export function pathOf(route: Route): string {
  return route.name === "chat" ? `/c/${route.id}` : "/";
}

// After a reload, the temporary chat of the history entry no longer exists, so the first read uses only the path.
export const useRoute = create<{ route: Route }>(() => ({ route: routeOf(window.location.pathname, null) }));

export function go(route: Route, how: "push" | "replace" = "push"): void {
  const state = route.name === "temporary" ? { temporary: route.id } : null;
  if (how === "push") window.history.pushState(state, "", pathOf(route));
  else window.history.replaceState(state, "", pathOf(route));
  useRoute.setState({ route });
}

export function watchHistory(): void {
  window.addEventListener("popstate", (event) => {
    useRoute.setState({ route: routeOf(window.location.pathname, event.state) });
  });
}

import { useServer } from "../server/store";
import { AccountDialog } from "./AccountDialog";
import { PeopleDialog } from "./PeopleDialog";
import { usePeople } from "./store";

/** The open dialog of accounts, for who is signed in. */
export function PeopleDialogs() {
  const dialog = usePeople((state) => state.dialog);
  const user = useServer((server) => server.info?.user ?? null);
  if (!user || !dialog) return null;
  return dialog === "account" ? <AccountDialog user={user} /> : <PeopleDialog user={user} />;
}

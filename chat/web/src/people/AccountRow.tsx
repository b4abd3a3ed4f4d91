import { CircleUser, LogOut, Users } from "lucide-react";
import { useServer } from "../server/store";
import { texts } from "../texts";
import { Menu, type MenuItem } from "../ui/Menu";
import { leave, openPeopleDialog } from "./store";
import "./people.css";

/** Who is signed in, at the foot of the list of chats. */
export function AccountRow() {
  const user = useServer((server) => server.info?.user ?? null);
  if (!user) return null;
  const items: MenuItem[] = [
    { label: texts.people.account, icon: <CircleUser />, run: () => openPeopleDialog("account") },
    ...(user.role === "admin" ? [{ label: texts.people.people, icon: <Users />, run: () => openPeopleDialog("people") }] : []),
    { label: texts.people.signOut, icon: <LogOut />, run: () => void leave() },
  ];
  return (
    <div className="account-row" data-testid="account:row">
      <CircleUser aria-hidden />
      <span className="clip" data-testid="account:name">{user.name}</span>
      <Menu label={texts.people.accountActions(user.name)} items={items} />
    </div>
  );
}

import { Ban, LogOut, ShieldCheck, ShieldOff, UserCheck } from "lucide-react";
import { changeUser, endSessionsOf, listUsers } from "../api/people";
import type { User } from "../api/types";
import { texts } from "../texts";
import { Dialog } from "../ui/Dialog";
import { Menu, type MenuItem } from "../ui/Menu";
import { Invitations } from "./Invitations";
import { useLoaded } from "./loaded";
import { openPeopleDialog } from "./store";

/** All accounts and invitations, for admins. */
export function PeopleDialog({ user }: { user: User }) {
  const { value, error, act } = useLoaded(listUsers);
  return (
    <Dialog title={texts.people.people} onClose={() => openPeopleDialog(null)} testId="people:dialog">
      <section className="people-part">
        {error ? <p className="note note-bad" role="alert" data-testid="people:error">{error}</p> : null}
        <ul className="people-list">
          {value?.map((one) => (
            <li key={one.id} data-testid="people:user" data-name={one.name}>
              <span className="people-main clip">{one.name}</span>
              {one.disabledAt ? <span className="badge badge-bad">{texts.people.disabled}</span> : null}
              <span className="badge">{texts.people[one.role]}</span>
              <Menu label={texts.people.actions(one.name)} items={itemsOf(one, one.id === user.id, act)} />
            </li>
          ))}
        </ul>
      </section>
      <Invitations />
    </Dialog>
  );
}

function itemsOf(one: User, own: boolean, act: (run: () => Promise<unknown>) => Promise<boolean>): MenuItem[] {
  const change = (what: Parameters<typeof changeUser>[1]) => () => void act(() => changeUser(one.id, what));
  const role: MenuItem = one.role === "admin"
    ? { label: texts.people.makeUser, icon: <ShieldOff />, run: change({ role: "user" }) }
    : { label: texts.people.makeAdmin, icon: <ShieldCheck />, run: change({ role: "admin" }) };
  if (own) return [role];
  return [
    role,
    { label: texts.people.endSessions, icon: <LogOut />, run: () => void act(() => endSessionsOf(one.id)) },
    one.disabledAt
      ? { label: texts.people.enable, icon: <UserCheck />, run: change({ disabled: false }) }
      : { label: texts.people.disable, icon: <Ban />, run: change({ disabled: true }), danger: true },
  ];
}

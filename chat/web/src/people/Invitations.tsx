import { useState } from "react";
import { invite, listInvitations, withdrawInvitation } from "../api/people";
import type { Role } from "../api/types";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { CopyButton } from "../ui/CopyButton";
import { linkOf } from "./invitation";
import { useLoaded } from "./loaded";

/** Makes invitations, and shows the link of the last one. */
export function Invitations() {
  const { value, error, act } = useLoaded(listInvitations);
  const [link, setLink] = useState<string | null>(null);
  const make = (role: Role) => void act(async () => setLink(linkOf((await invite(role)).secret)));
  return (
    <section className="people-part">
      <h3>{texts.people.invitations}</h3>
      {error ? <p className="note note-bad" role="alert">{error}</p> : null}
      {link ? (
        <>
          <p className="note" role="status">{texts.people.link}</p>
          <div className="people-link">
            <input className="field mono" readOnly value={link} aria-label={texts.people.linkLabel} onFocus={(event) => event.target.select()} data-testid="people:link" />
            <CopyButton text={link} />
          </div>
        </>
      ) : null}
      <ul className="people-list">
        {value?.map(({ id, role, createdBy, expiresAt }) => (
          <li key={id}>
            <span className="people-main quiet">{texts.people.invitationOf(createdBy, new Date(expiresAt).toLocaleDateString("en-GB"))}</span>
            <span className="badge">{texts.people[role]}</span>
            <Button onClick={() => void act(() => withdrawInvitation(id))}>{texts.people.withdraw}</Button>
          </li>
        ))}
      </ul>
      <div className="people-link">
        <Button kind="main" onClick={() => make("user")} testId="people:invite">{texts.people.invite}</Button>
        <Button onClick={() => make("admin")}>{texts.people.inviteAdmin}</Button>
      </div>
    </section>
  );
}

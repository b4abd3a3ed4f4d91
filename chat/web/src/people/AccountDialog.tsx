import { type SubmitEvent, useState } from "react";
import { sentenceOf } from "../api/error";
import { changePassword, endSession, listSessions } from "../api/people";
import type { User } from "../api/types";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { ago } from "../ui/format";
import { plainName } from "../ui/names";
import { Field } from "./Entry";
import { textOf } from "./fields";
import { useLoaded } from "./loaded";
import { openPeopleDialog } from "./store";

/** The user's own password and sessions. */
export function AccountDialog({ user }: { user: User }) {
  return (
    <Dialog title={`${texts.people.account}: ${user.name}`} onClose={() => openPeopleDialog(null)} testId="account:dialog">
      <PasswordForm hasPassword={user.hasPassword} />
      <Sessions />
    </Dialog>
  );
}

function PasswordForm({ hasPassword }: { hasPassword: boolean }) {
  const [note, setNote] = useState<{ text: string; bad: boolean } | null>(null);
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    try {
      await changePassword(textOf(form, "current"), textOf(form, "next"));
      form.reset();
      setNote({ text: texts.people.changed, bad: false });
    } catch (thrown) {
      setNote({ text: sentenceOf(thrown), bad: true });
    }
  };
  return (
    <form className="people-part" onSubmit={(event) => void submit(event)}>
      <h3>{texts.people.changePassword}</h3>
      {hasPassword ? (
        <Field label={texts.people.current}>
          <input className="field" name="current" type="password" autoComplete="current-password" required data-testid="account:current" />
        </Field>
      ) : null}
      <Field label={texts.people.next} hint={texts.people.passwordHint}>
        <input className="field" name="next" type="password" autoComplete="new-password" required data-testid="account:next" />
      </Field>
      {note ? <p className={note.bad ? "note note-bad" : "note"} role="status" data-testid="account:note">{note.text}</p> : null}
      <Button kind="main" type="submit" testId="account:change">{texts.people.changePassword}</Button>
    </form>
  );
}

function Sessions() {
  const { value, error, act } = useLoaded(listSessions);
  return (
    <section className="people-part">
      <h3>{texts.people.sessions}</h3>
      {error ? <p className="note note-bad" role="alert">{error}</p> : null}
      <ul className="people-list">
        {value?.sessions.map(({ id, agent, usedAt }) => {
          const name = plainName(agent ?? texts.people.unknownAgent);
          return (
            <li key={id} data-testid="account:session">
              <span className="people-main">
                <span className="clip" title={name}>{name}</span>
                <small className="quiet">{texts.people.lastUsed(ago(usedAt))}</small>
              </span>
              {id === value.current ? (
                <span className="badge badge-ok">{texts.people.thisSession}</span>
              ) : (
                <Button aria-label={texts.people.endSessionOf(name)} onClick={() => void act(() => endSession(id))}>{texts.people.endSession}</Button>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

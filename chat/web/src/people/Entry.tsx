import { type SubmitEvent, type ReactNode, useState } from "react";
import { sentenceOf } from "../api/error";
import { acceptInvitation, beginWithProvider, signIn } from "../api/people";
import { useServer } from "../server/store";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { Mark } from "../ui/Mark";
import { textOf } from "./fields";
import { failureOfAddress, invitationOfAddress } from "./invitation";
import { startOver } from "./store";
import "./people.css";

/** The page without a session. */
export function Entry() {
  const invitation = invitationOfAddress();
  return invitation ? (
    <EntryForm
      title={texts.people.invitedTitle}
      text={texts.people.invitedText}
      action={texts.people.createAccount}
      fresh
      send={(name, password) => acceptInvitation(invitation, name, password)}
    />
  ) : (
    <EntryForm title={texts.people.signInTitle} text={texts.people.signInText} action={texts.people.signIn} send={signIn} />
  );
}

type Props = { title: string; text: string; action: string; fresh?: boolean; send: (name: string, password: string) => Promise<void> };

function EntryForm({ title, text, action, fresh = false, send }: Props) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(failureOfAddress);
  const provider = useServer((server) => server.info?.identityProvider ?? false);
  const act = async (run: () => Promise<void>) => {
    setBusy(true);
    setError(null);
    try {
      await run();
    } catch (thrown) {
      setError(sentenceOf(thrown));
      setBusy(false);
    }
  };
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    void act(async () => {
      await send(textOf(form, "name"), textOf(form, "password"));
      startOver();
    });
  };
  const goToProvider = () => void act(async () => window.location.assign(await beginWithProvider(invitationOfAddress())));
  return (
    <section className="entry">
      <form className="entry-form" onSubmit={submit} data-testid="entry:form">
        <Mark />
        <h1>{title}</h1>
        <p className="quiet">{text}</p>
        <Field label={texts.people.name}>
          <input className="field" name="name" autoComplete="username" autoCapitalize="none" spellCheck={false} required autoFocus data-testid="entry:name" />
        </Field>
        <Field label={texts.people.password} {...(fresh ? { hint: texts.people.passwordHint } : {})}>
          <input className="field" name="password" type="password" autoComplete={fresh ? "new-password" : "current-password"} required data-testid="entry:password" />
        </Field>
        {error ? <p className="note note-bad" role="alert" data-testid="entry:error">{error}</p> : null}
        <Button kind="main" type="submit" disabled={busy} testId="entry:send">{action}</Button>
        {provider ? <Button disabled={busy} onClick={goToProvider} testId="entry:provider">{texts.people.withProvider}</Button> : null}
      </form>
    </section>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: ReactNode }) {
  return (
    <label className="people-field">
      <span>{label}{hint ? <small>{hint}</small> : null}</span>
      {children}
    </label>
  );
}

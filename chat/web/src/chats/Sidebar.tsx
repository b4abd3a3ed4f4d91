import { Ghost, PanelLeft, Search, SquarePen } from "lucide-react";
import { setDrawer, setPalette, toggleSidebar } from "../app/panel";
import { type Route, useRoute } from "../app/route";
import { newChat, newTemporary } from "../app/actions";
import { ThemeButton } from "../app/ThemeButton";
import { AccountRow } from "../people/AccountRow";
import { useServer } from "../server/store";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { IconButton } from "../ui/IconButton";
import { Mark } from "../ui/Mark";
import { useNarrow } from "../ui/narrow";
import { ChatRow } from "./ChatRow";
import { groupsOf } from "./groups";
import { loadChats, moreChats, useChats } from "./store";
import { TemporaryRows } from "./TemporaryRows";
import "./chats.css";

export function Sidebar() {
  const mayUse = useServer((server) => server.info?.mayUse ?? false);
  const version = useServer((server) => server.info?.version);
  return (
    <nav className="side" aria-label={texts.chats.heading}>
      <header className="side-head">
        <Mark small />
        <span className="side-name">{texts.product}</span>
        <IconButton label={texts.palette.open} onClick={() => setPalette(true)} testId="palette:open"><Search /></IconButton>
        <HideButton />
      </header>
      <div className="side-new">
        <button type="button" className="side-action" onClick={newChat} data-testid="chat:new"><SquarePen aria-hidden />{texts.chats.new}</button>
        <IconButton label={`${texts.chats.temporary}. ${texts.chats.temporaryHint}`} onClick={() => void newTemporary()} disabled={!mayUse} testId="chat:temporary"><Ghost /></IconButton>
      </div>
      <div className="side-list">
        <TemporaryRows />
        <List mayUse={mayUse} />
      </div>
      <AccountRow />
      <footer className="side-foot">
        <span className="quiet">
          {version ? `v${version} · ` : ""}
          <a href="/THIRD-PARTY-NOTICES.txt" target="_blank" rel="noopener noreferrer" title={texts.noticesHint} data-testid="notices">{texts.notices}</a>
        </span>
        <ThemeButton />
      </footer>
    </nav>
  );
}

function HideButton() {
  const narrow = useNarrow();
  return <IconButton label={texts.chats.hide} onClick={() => (narrow ? setDrawer(false) : toggleSidebar())}><PanelLeft /></IconButton>;
}

function List({ mayUse }: { mayUse: boolean }) {
  const { chats, nextCursor, state, error } = useChats();
  const route = useRoute((at) => at.route);
  const accounts = useServer((server) => server.info?.accounts ?? false);
  if (!mayUse) return <p className="side-note">{accounts ? texts.people.locked : texts.chats.locked}</p>;
  if (chats.length === 0 && state === "failed") {
    return <div className="side-note" role="alert">{error} <Button onClick={() => void loadChats()}>{texts.retry}</Button></div>;
  }
  if (chats.length === 0) return <p className="side-note">{state === "ready" ? texts.chats.empty : texts.loading}</p>;
  return (
    <>
      {groupsOf(chats).map(({ name, chats: group }) => (
        <section key={name} aria-label={name}>
          <h3 className="side-group">{name}</h3>
          <ul>
            {group.map((chat) => (
              <ChatRow key={chat.id} chat={chat} current={isAt(route, chat.id)} />
            ))}
          </ul>
        </section>
      ))}
      {nextCursor ? <Button className="side-more" onClick={() => void moreChats()}>{texts.more}</Button> : null}
    </>
  );
}

function isAt(route: Route, id: string): boolean {
  return route.name === "chat" && route.id === id;
}

import { useEffect } from "react";
import { openTokenDialog, useAccess } from "../access/store";
import { TokenDialog } from "../access/TokenDialog";
import { ChatView } from "../chat/ChatView";
import { draftConversation, forgetFailed, openStored, refreshOpen, useConversations } from "../chat/conversations";
import { useAnyRunning } from "../chat/live";
import { TopBar } from "../chat/TopBar";
import { watchChanges } from "../chats/changes";
import { forgetChats, loadChats } from "../chats/store";
import { Sidebar } from "../chats/Sidebar";
import { Entry } from "../people/Entry";
import { PeopleDialogs } from "../people/PeopleDialogs";
import { Banner } from "../server/Banner";
import { glance, refreshServer, useServer } from "../server/store";
import { texts } from "../texts";
import { Announcer } from "../ui/Announcer";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { Mark } from "../ui/Mark";
import { useNarrow } from "../ui/narrow";
import { newChat } from "./actions";
import { useKeys } from "./keys";
import { Palette } from "./Palette";
import { setDrawer, usePanel } from "./panel";
import { go, useRoute } from "./route";
import "./app.css";

/** While a command or an answer runs, the user should soon see why nothing arrives. */
const GLANCE_EVERY_MS = 4000;

export function App() {
  useKeys();
  useChatsWhileAllowed();
  useCloseWatch();
  const narrow = useNarrow();
  const { sidebar, drawer, palette } = usePanel();
  const dialogOpen = useAccess((access) => access.dialogOpen);
  return (
    <div className="page">
      <Banner />
      <div className="page-row">
        {!narrow && sidebar ? <Sidebar /> : null}
        <main className="main"><Main /></main>
      </div>
      {narrow && drawer ? (
        <Dialog title={texts.chats.heading} kind="drawer" bare onClose={() => setDrawer(false)}><Sidebar /></Dialog>
      ) : null}
      {palette ? <Palette /> : null}
      {dialogOpen ? <TokenDialog /> : null}
      <PeopleDialogs />
      <Announcer />
    </div>
  );
}

function Main() {
  const info = useServer((server) => server.info);
  const error = useServer((server) => server.error);
  if (!info) return error ? <Blank title="" text="" /> : <p className="page-wait" aria-busy>{texts.loading}</p>;
  if (info.accounts && !info.user) return <Entry />;
  return info.mayUse ? <Routed /> : <Locked lan={info.access !== "localhost"} />;
}

function Routed() {
  const route = useRoute((at) => at.route);
  const draftId = useConversations((state) => state.draftId);
  const id = route.name === "home" ? draftId : route.id;
  const entry = useConversations((state) => (id === null ? undefined : state.entries[id]));
  const unknown = entry === undefined;
  useEffect(() => {
    if (route.name === "home" && id === null) draftConversation();
    else if (route.name === "chat" && unknown) void openStored(route.id);
    else if (route.name === "temporary" && unknown) go({ name: "home" }, "replace");
  }, [route, id, unknown]);

  if (!entry || entry.state === "loading") return <Blank title="" text={texts.loading} />;
  if (entry.state === "missing") {
    return <Blank title={texts.chats.missingTitle} text={texts.chats.missingText} action={texts.chats.new} onAction={newChat} />;
  }
  if (entry.state === "failed") return <Blank title="" text={entry.sentence} action={texts.retry} onAction={forgetFailed} />;
  return <ChatView key={entry.conversation.id} conversation={entry.conversation} />;
}

function Locked({ lan }: { lan: boolean }) {
  return lan ? (
    <Blank title={texts.locked.title} text={texts.locked.text} action={texts.locked.button} onAction={openTokenDialog} />
  ) : (
    <Blank title={texts.locked.localTitle} text={texts.locked.local} action={texts.retry} onAction={() => void refreshServer()} />
  );
}

type BlankProps = { title: string; text: string; action?: string; onAction?: () => void };

function Blank({ title, text, action, onAction }: BlankProps) {
  return (
    <section className="chat">
      <TopBar />
      <div className="empty">
        <div className="column empty-column">
          {title ? <><Mark /><h2>{title}</h2></> : null}
          <p className="empty-text">{text}</p>
          {action ? <Button kind="main" className="empty-action" onClick={onAction}>{action}</Button> : null}
        </div>
      </div>
    </section>
  );
}

function useChatsWhileAllowed(): void {
  const mayUse = useServer((server) => server.info?.mayUse);
  const away = useServer((server) => server.error !== null);
  useEffect(() => {
    if (mayUse === false) forgetChats();
    if (!mayUse || away) return;
    void loadChats();
    // A chat that could not be opened while the server was down, or before there was a token, may open now.
    forgetFailed();
    return watchChanges((chat) => {
      void loadChats();
      const { route } = useRoute.getState();
      const id = chat ?? (route.name === "chat" ? route.id : null);
      if (id !== null) void refreshOpen(id);
    });
  }, [mayUse, away]);
}

function useCloseWatch(): void {
  const running = useAnyRunning();
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(glance, GLANCE_EVERY_MS);
    return () => clearInterval(timer);
  }, [running]);
}

import { Box, FolderOpen, Ghost, PanelLeft, SquareTerminal } from "lucide-react";
import { useEffect } from "react";
import { TokenButton } from "../access/TokenButton";
import { setDrawer, togglePanel, toggleSidebar, usePanel } from "../app/panel";
import { useChats } from "../chats/store";
import { useServer } from "../server/store";
import { texts } from "../texts";
import { IconButton } from "../ui/IconButton";
import { plainName } from "../ui/names";
import { useNarrow } from "../ui/narrow";
import type { Conversation } from "./conversation";

export function TopBar({ conversation }: { conversation?: Conversation }) {
  const panel = usePanel((state) => state.panel);
  const terminals = useServer((server) => server.info?.tools.provider === "docker");
  const title = useChats(({ chats }) => chats.find((chat) => chat.id === conversation?.id)?.title);
  const name = conversation?.temporary ? texts.chats.temporary : title && plainName(title);
  useEffect(() => {
    document.title = name ? `${name} · ${texts.product}` : texts.product;
  }, [name]);
  return (
    <header className="top">
      <SidebarButton />
      <h1 className="top-title clip">
        {conversation?.temporary ? <Ghost aria-hidden /> : null}{name ?? <span className="hidden-visually">{texts.chats.new}</span>}
      </h1>
      <TokenButton />
      {conversation ? (
        <>
          <IconButton label={texts.files.open} aria-pressed={panel === "files"} onClick={() => togglePanel("files")} testId="panel:files"><FolderOpen /></IconButton>
          {terminals ? <IconButton label={texts.terminals.open} aria-pressed={panel === "terminal"} onClick={() => togglePanel("terminal")} testId="panel:terminal"><SquareTerminal /></IconButton> : null}
          <IconButton label={texts.session.open} aria-pressed={panel === "session"} onClick={() => togglePanel("session")} testId="panel:session"><Box /></IconButton>
        </>
      ) : null}
    </header>
  );
}

function SidebarButton() {
  const narrow = useNarrow();
  const open = usePanel((state) => state.sidebar);
  if (narrow) {
    return <IconButton label={texts.chats.open} onClick={() => setDrawer(true)} testId="chats:open"><PanelLeft /></IconButton>;
  }
  return open ? null : <IconButton label={texts.chats.open} onClick={toggleSidebar} testId="chats:open"><PanelLeft /></IconButton>;
}

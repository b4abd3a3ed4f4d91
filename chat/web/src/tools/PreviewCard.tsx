// Shows a server that runs inside the sandbox. The page in the frame is untrusted. It gets a sandboxed frame without
// a referrer. Its origin is never that of this page, where `allow-same-origin` would give it access to this page.
import { ExternalLink, Globe, Maximize2, Minimize2, RotateCw } from "lucide-react";
import { useState } from "react";
import { texts } from "../texts";
import { Button } from "../ui/Button";
import { CopyButton } from "../ui/CopyButton";
import { IconButton } from "../ui/IconButton";
import { Card, RunningBadge } from "./Card";
import { field, numberField, type ToolCall, webAddress } from "./part";

type Props = { call: ToolCall; live: boolean; latest: boolean };

export function PreviewCard({ call, live, latest }: Props) {
  const port = numberField(call.input, "port");
  const raw = field(call.output, "url");
  const url = webAddress(raw);
  const [tall, setTall] = useState(false);
  const [wanted, setWanted] = useState(latest);
  const [turn, setTurn] = useState(0);
  const obstacle = url ? obstacleTo(url) : null;
  const framed = url !== null && obstacle === null;

  return (
    <Card
      kind="sandboxUrl"
      icon={<Globe />}
      title={url ? url.host + (url.pathname === "/" ? "" : url.pathname) : texts.preview.title}
      hint={url?.href ?? texts.preview.title}
      badges={<State call={call} live={live} port={port} />}
      tone={call.error === null ? undefined : "bad"}
      actions={
        url ? (
          <>
            {framed && wanted ? (
              <>
                <IconButton label={texts.preview.reload} onClick={() => setTurn(turn + 1)} testId="preview:reload"><RotateCw /></IconButton>
                <IconButton label={tall ? texts.preview.shorter : texts.preview.taller} className="wide-only" aria-pressed={tall} onClick={() => setTall(!tall)}>
                  {tall ? <Minimize2 /> : <Maximize2 />}
                </IconButton>
              </>
            ) : null}
            <CopyButton text={url.href} label={texts.preview.copy} className="wide-only" />
            <a className="icon-button" href={url.href} target="_blank" rel="noopener noreferrer" aria-label={texts.preview.open} title={texts.preview.open} data-testid="preview:open">
              <ExternalLink />
            </a>
          </>
        ) : null
      }
    >
      {call.error === null ? null : <p className="card-note tone-bad" role="alert">{call.error}</p>}
      {call.output !== undefined && !url ? <p className="card-note tone-bad">{texts.preview.bad}</p> : null}
      {obstacle ? <p className="card-note">{obstacle} {url ? <Link url={url} /> : null}</p> : null}
      {framed && wanted ? (
        <iframe
          key={turn}
          className={`preview ${tall ? "preview-tall" : ""}`}
          src={url.href}
          title={texts.preview.frame(url.href)}
          sandbox="allow-scripts allow-forms allow-same-origin allow-popups allow-modals allow-downloads"
          referrerPolicy="no-referrer"
          data-testid="preview:frame"
        />
      ) : null}
      {framed && !wanted ? (
        <div className="preview-off"><Button onClick={() => setWanted(true)}>{texts.preview.show}</Button></div>
      ) : null}
    </Card>
  );
}

function Link({ url }: { url: URL }) {
  return <a href={url.href} target="_blank" rel="noopener noreferrer">{url.href}</a>;
}

function obstacleTo(url: URL): string | null {
  if (url.origin === window.location.origin) return texts.preview.own;
  const local = url.hostname === "localhost" || url.hostname.endsWith(".localhost") || url.hostname === "127.0.0.1";
  return window.location.protocol === "https:" && url.protocol === "http:" && !local ? texts.preview.mixed : null;
}

function State({ call, live, port }: { call: ToolCall; live: boolean; port: number | null }) {
  if (call.error !== null) return <span className="badge badge-bad">{texts.tools.failed}</span>;
  if (call.output === undefined && live) return <RunningBadge>{texts.preview.opening}</RunningBadge>;
  return port === null ? null : <span className="badge">{texts.preview.port(port)}</span>;
}

// A mock of the chat server, for developing the page and for dev/smoke.mjs: serves dist/ with the server's content security
// policy and answers its routes from memory. It is a development tool and never part of a release.
//   node dev/mock.mjs            http://127.0.0.1:3001, a model connected
//   MOCK_MODELS=0                no model
//   MOCK_TOKEN=secret            LAN mode: requests without the correct token are rejected
//   PORT=3001  PREVIEW_PORT=3002
// dev/mock/script.mjs lists the commands for /bash and the model.
import { createServer } from "node:http";
import { api, changeConditions } from "./mock/api.mjs";
import { page } from "./mock/page.mjs";

// If a test started the mock, it ends with the test.
if (process.env.MOCK_CHILD) process.stdin.on("end", () => process.exit()).resume();

const port = Number(process.env.PORT ?? 3001);
const previewPort = Number(process.env.PREVIEW_PORT ?? 3002);

createServer(async (request, response) => {
  try {
    const url = new URL(request.url, "http://mock");
    if (url.pathname === "/mock") await changeConditions(request, response);
    else if (url.pathname.startsWith("/api/")) await api(request, response, url);
    else await page(response, url);
  } catch (thrown) {
    console.error(thrown);
    if (!response.headersSent) response.writeHead(500, { "content-type": "application/json" });
    response.end(JSON.stringify({ error: "The mock has failed.", code: "internal" }));
  }
}).listen(port, "127.0.0.1", () => console.log(`mock chat on http://127.0.0.1:${port}`));

// The "server in the sandbox": another origin, with scripts that try to access the page.
createServer((_, response) => {
  response.writeHead(200, { "content-type": "text/html" });
  response.end(`<!doctype html><title>Preview</title><style>body{font:16px system-ui;display:grid;place-content:center;height:100vh;margin:0;background:linear-gradient(135deg,#e0f0ed,#f6efe2)}</style>
<h1>Hello from the sandbox</h1><p id=p></p><script>let t="";try{t=parent.document.title}catch(e){t="walled off"}p.textContent=t</script>`);
}).listen(previewPort, "127.0.0.1");

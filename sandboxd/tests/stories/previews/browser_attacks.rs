//! Pages of one sandbox that try to read another sandbox's preview, or to make its server or the daemon act. They run
//! in a real browser in which both previews are open, and they know all addresses, which a real attacker would not.

use std::slice;

use sandbox_api::SandboxId;
use sandbox_api::sandbox::ListSandboxes;

use crate::support::browser::Browser;
use crate::support::harness::Daemon;
use crate::support::visitor::{links, node, sandbox_with_port, serve, url_parts};

/// Text that only visitors of the victim may read.
const SECRET: &str = "the secret of the victim";

/// A server that sends its secret to every request that appears to come from its own page or from a user, and records
/// each request.
const VICTIM: &str = r#"cat >victim.js <<'END'
const { createHash } = require('crypto');
const secret = 'the secret of the victim';
const seen = [];
const server = require('http').createServer((req, res) => {
  if (req.url === '/seen') return res.end(seen.join('\n'));
  seen.push([req.method, req.url, req.headers.origin ?? '-', req.headers['sec-fetch-mode'] ?? '-'].join(' '));
  res.setHeader('set-cookie', 'session=' + secret.replaceAll(' ', '+') + '; HttpOnly');
  if (req.url === '/events') {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    return res.end('data: ' + secret + '\n\n');
  }
  res.writeHead(200, { 'content-type': 'text/html' });
  res.end('<link rel=icon href=data:,><p>' + secret);
});
server.on('upgrade', (req, socket) => {
  socket.on('error', () => {});
  seen.push(['SOCKET', req.url, req.headers.origin ?? '-', '-'].join(' '));
  if (req.headers.origin !== 'http://localhost:3000') return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  const key = req.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = createHash('sha1').update(key).digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ' + accept + '\r\n\r\n');
  socket.write(Buffer.concat([Buffer.from([0x81, secret.length]), Buffer.from(secret)]));
});
server.listen(3000, '127.0.0.1');
END
exec node victim.js"#;

/// Every way in which a page can reach `TARGET`, an address of another origin, and the result of each, one per line.
const ATTACK: &str = r#"
const reported = [];
const attempt = async (what, act) => {
  const silence = new Promise((resolve) => setTimeout(resolve, 5000, 'silence'));
  const came = await Promise.race([act(), silence]).catch((error) => 'refused: ' + error.name);
  reported.push(what + ': ' + came);
};
const events = (thing, good, bad, read) => new Promise((resolve, reject) => {
  thing[good] = (event) => resolve(read(event));
  thing[bad] = () => reject({ name: bad });
});
const frame = async (sandbox) => {
  const made = Object.assign(document.createElement('iframe'), { name: 'frame' + reported.length });
  if (sandbox) made.sandbox = sandbox;
  const loaded = events(made, 'onload', 'onerror', () => made);
  made.src = TARGET;
  document.body.append(made);
  return loaded;
};
const text = async (answer) => { answer = await answer; return answer.type + ' ' + await answer.text(); };

await attempt('fetch', () => text(fetch(TARGET)));
await attempt('fetch with cookies', () => text(fetch(TARGET, { credentials: 'include' })));
await attempt('fetch blindly', () => text(fetch(TARGET, { mode: 'no-cors', credentials: 'include' })));
await attempt('post blindly', () => text(fetch(TARGET + 'post', { method: 'POST', mode: 'no-cors', credentials: 'include', body: BODY })));
await attempt('post json', () => text(fetch(TARGET + 'json', { method: 'POST', credentials: 'include', body: BODY, headers: { 'content-type': 'application/json' } })));
await attempt('delete', () => text(fetch(TARGET + 'delete', { method: 'DELETE', credentials: 'include' })));
await attempt('beacon', async () => navigator.sendBeacon(TARGET + 'beacon', BODY));
await attempt('events', () => events(new EventSource(TARGET + 'events', { withCredentials: true }), 'onmessage', 'onerror', (event) => event.data));
await attempt('socket', () => events(new WebSocket(TARGET.replace('http', 'ws') + 'socket'), 'onmessage', 'onerror', (event) => event.data));
await attempt('frame', async () => (await frame()).contentDocument?.body.innerText);
await attempt('into a frame', async () => (await frame()).contentWindow.document.body.innerText);
await attempt('frame without an origin', async () => (await frame('allow-scripts')).contentWindow.document.body.innerText);
await attempt('a common domain', async () => {
  document.domain = location.hostname.split('.').at(-1);
  return (await frame()).contentWindow.document.body.innerText;
});
await attempt('a form', async () => {
  const target = await frame();
  const form = Object.assign(document.createElement('form'), { action: TARGET + 'form', method: 'POST', target: target.name, enctype: 'text/plain' });
  form.append(Object.assign(document.createElement('input'), { name: BODY.slice(0, -2), value: BODY.slice(-2) }));
  document.body.append(form);
  const answered = events(target, 'onload', 'onerror', () => target);
  form.submit();
  return (await answered).contentDocument?.body.innerText;
});
await attempt('window', async () => {
  const opened = window.open(TARGET);
  try {
    for (let tries = 0; tries < 80; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      // The new window still belongs to this page while it is empty.
      const shown = opened.location.href !== 'about:blank' && opened.document.body?.innerText;
      if (shown) return shown;
    }
    return 'nothing';
  } finally { opened.close(); }
});
await attempt('a worker', async () => (await navigator.serviceWorker.register(TARGET + 'worker.js')).scope);
await attempt('a worker of its own for all', async () => (await navigator.serviceWorker.register('/worker.js', { scope: TARGET })).scope);
await attempt('cookies', async () => {
  document.cookie = 'planted=by an attacker; domain=' + location.hostname.split('.').at(-1);
  return document.cookie;
});
await attempt('storage', async () => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, await indexedDB.databases()]));
return reported;
"#;

/// Runs the attack on an address, from the open page.
async fn attack(browser: &Browser, target: &str) -> Vec<String> {
    let body = r#"{"sessionKey":"made by a page"}"#;
    let reported: Vec<String> =
        browser.settle(&format!("const TARGET = '{target}', BODY = '{body}'; {ATTACK}")).await;
    assert_eq!(reported.len(), 19, "{reported:#?}");
    assert!(!reported.iter().any(|came| came.contains("silence")), "{target}: {reported:#?}");
    reported
}

/// Runs the attack, which must reveal nothing.
async fn attack_fails(browser: &Browser, target: &str) -> Vec<String> {
    let reported = attack(browser, target).await;
    let read = reported.iter().find(|came| ["secret", "lnk_", "sbx_"].iter().any(|part| came.contains(part)));
    assert_eq!(read, None, "{target}");
    reported
}

/// The requests that the victim's server has received.
async fn seen_by(daemon: &Daemon, victim: &SandboxId) -> Vec<String> {
    let seen = daemon.output(victim, "curl -s http://127.0.0.1:3000/seen").await;
    seen.lines().map(str::to_owned).collect()
}

fn base(link: &str) -> String {
    format!("http://{}/", url_parts(link).host)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_cannot_read_another_sandboxs_preview() {
    let Some(browser) = Browser::start().await else { return };
    let daemon = Daemon::start().await;
    let attacker = sandbox_with_port(&daemon, "chat:attacker").await;
    let victim = sandbox_with_port(&daemon, "chat:victim").await;
    let page = "res.setHeader('content-type', 'text/html'); res.end('<p>' + JSON.stringify(req.headers))";
    serve(&daemon, &attacker, &node(page)).await;
    serve(&daemon, &victim, VICTIM).await;
    let to_victim = links(&daemon, &victim).await;
    let to_attacker = links(&daemon, &attacker).await;
    for link in &to_victim {
        browser.open(link).await;
        browser.reads(SECRET).await;
        browser.eval::<()>("localStorage.setItem('kept', 'the secret of the victim')").await;
        let own = attack(&browser, &base(link)).await;
        for way in
            ["fetch", "fetch with cookies", "events", "socket", "frame", "into a frame", "window", "storage"]
        {
            let came = own.iter().find(|came| came.starts_with(&format!("{way}:")));
            assert!(came.is_some_and(|came| came.contains(SECRET)), "its own page can read it: {own:#?}");
        }
    }
    let key = to_victim[1].split_once('=').unwrap().1;
    let held = browser.cookies().await;
    assert!(held.iter().any(|cookie| cookie.ends_with(&format!("_key={key}"))), "{held:?}");
    assert!(held.iter().any(|cookie| cookie.ends_with("-session=the+secret+of+the+victim")), "{held:?}");

    for from in &to_attacker {
        for target in &to_victim {
            let before = seen_by(&daemon, &victim).await.len();
            browser.open(from).await;
            browser.reads("localhost:3000").await;
            let reported: String = browser.eval("return document.body.innerText").await;
            assert!(
                !reported.contains(key) && !reported.contains("secret"),
                "the server sees the key or a secret: {reported}"
            );
            let came = attack_fails(&browser, &base(target)).await;
            let asked = seen_by(&daemon, &victim).await.split_off(before);
            let is_own = |line: &&String| line.contains("http://localhost:3000");
            assert_eq!(
                asked.iter().find(is_own),
                None,
                "no foreign request looks like one of its own page: {came:#?}"
            );
            if target == &to_victim[1] {
                let done = asked.iter().find(|line| !line.starts_with("GET / - navigate"));
                assert_eq!(done, None, "only navigation reaches a link with its own port: {came:#?}");
            }
        }
    }
    browser.open(&to_victim[0]).await;
    let cookies: String = browser.eval("return document.cookie").await;
    assert_eq!(cookies, "", "other pages cannot set cookies for the preview's host");
    browser.quit().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_cannot_make_the_daemon_act() {
    let Some(browser) = Browser::start().await else { return };
    let daemon = Daemon::start().await;
    let attacker = sandbox_with_port(&daemon, "chat:attacker").await;
    let page = "res.setHeader('content-type', 'text/html'); res.end('<p>a page')";
    serve(&daemon, &attacker, &node(page)).await;
    let sandboxes = async || {
        let list = daemon.client.list(&ListSandboxes::default()).await.unwrap();
        list.sandboxes.into_iter().map(|sandbox| sandbox.sandbox_id).collect::<Vec<_>>()
    };
    for link in links(&daemon, &attacker).await {
        // Attempts append to the URL. The query keeps the route unchanged.
        for path in ["/v1/sandboxes?x=", &format!("/v1/sandboxes/{attacker}?x=")] {
            browser.open(&link).await;
            browser.reads("a page").await;
            let came = attack_fails(&browser, &format!("{}{path}", daemon.base)).await;
            assert_eq!(sandboxes().await, slice::from_ref(&attacker), "{path}: {came:#?}");
        }
    }
    browser.quit().await;
    daemon.stop().await;
}

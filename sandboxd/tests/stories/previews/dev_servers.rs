//! Development servers as installed, without configuration, seen in a real browser through links of both styles.

use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;

use crate::support::browser::Browser;
use crate::support::files::{file, write};
use crate::support::harness::{Daemon, outcome, script};
use crate::support::network::{home, reaches};
use crate::support::visitor::{links, node, sandbox_with_port, serve};

/// A mark that is lost when the page is reloaded.
const MARK: &str = "window.mark = 'still the same page'";
const MARKED: &str = "window.mark === 'still the same page'";

/// Writes files of a project.
async fn project(daemon: &Daemon, sandbox: &SandboxId, files: &[(&str, &str)]) {
    let files: Vec<_> = files.iter().map(|(path, text)| file(path, text)).collect();
    write(daemon, sandbox, files).await.unwrap();
}

/// Installs packages, which takes a while on a busy machine.
async fn install(daemon: &Daemon, sandbox: &SandboxId, command: &str) {
    let request = StartCommand { timeout_ms: Some(120_000), ..script(command) };
    let installed = outcome(daemon.client.run(sandbox, &request).await.unwrap()).await;
    assert_eq!(installed.exit_code, 0, "{command}: {}", String::from_utf8_lossy(&installed.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn vite_shows_its_page_and_updates_it_without_a_reload() {
    if !reaches("registry.npmjs.org").await {
        return;
    }
    let Some(browser) = Browser::start().await else { return };
    browser.count_sockets().await;
    let daemon = Daemon::start_in(home()).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let said = |said: &str| format!("export const said = '{said}';\n");
    project(
        &daemon,
        &sandbox,
        &[
            ("package.json", r#"{"private": true, "type": "module", "devDependencies": {"vite": "8.3.8"}}"#),
            (
                "index.html",
                r#"<!doctype html><p id="said"></p><script type="module" src="/main.js"></script>"#,
            ),
            (
                "main.js",
                "import { said } from './said.js';\n\
                 const show = (said) => { document.getElementById('said').textContent = said; };\n\
                 show(said);\n\
                 import.meta.hot.accept('./said.js', (next) => show(next.said));\n",
            ),
            ("said.js", &said("the first")),
        ],
    )
    .await;
    install(&daemon, &sandbox, "npm install --no-audit --no-fund").await;
    // Without an address it listens on `localhost`.
    serve(&daemon, &sandbox, "exec npx vite --port 3000 --strictPort").await;
    for (link, next) in links(&daemon, &sandbox).await.into_iter().zip(["the second", "the third"]) {
        browser.open(&link).await;
        browser.reads("the").await;
        // Vite sends a change only to pages that are connected.
        browser.has_socket().await;
        browser.eval::<()>(MARK).await;
        project(&daemon, &sandbox, &[("said.js", &said(next))]).await;
        browser.reads(next).await;
        browser.sees(MARKED).await;
    }
    browser.quit().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn next_shows_its_page_updates_it_with_its_state_and_accepts_forms() {
    if !reaches("registry.npmjs.org").await {
        return;
    }
    let Some(browser) = Browser::start().await else { return };
    browser.count_sockets().await;
    let daemon = Daemon::start_in(home()).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let page = |said: &str| {
        format!(
            "import {{ revalidatePath }} from 'next/cache';\n\
             import {{ Count }} from './count.js';\n\
             export const dynamic = 'force-dynamic';\n\
             export default function Page() {{\n\
               async function tell(form) {{\n\
                 'use server';\n\
                 globalThis.told = form.get('told');\n\
                 revalidatePath('/');\n\
               }}\n\
               return <main><p>{said}</p><Count /><p>told {{globalThis.told}}</p>\n\
                 <form action={{tell}}><input name=\"told\" id=\"told\" /><button id=\"tell\">tell</button></form></main>;\n\
             }}\n"
        )
    };
    project(
        &daemon,
        &sandbox,
        &[
            (
                "package.json",
                r#"{"private": true, "dependencies": {"next": "16.4.6", "react": "19.3.1", "react-dom": "19.3.1"}}"#,
            ),
            (
                "app/layout.js",
                "export default function Layout({ children }) {\n\
                   return <html><body>{children}</body></html>;\n\
                 }\n",
            ),
            (
                "app/count.js",
                "'use client';\n\
                 import { useState } from 'react';\n\
                 export function Count() {\n\
                   const [count, setCount] = useState(0);\n\
                   return <button id='count' onClick={() => setCount(1)}>counted {count}</button>;\n\
                 }\n",
            ),
            ("app/page.js", &page("the first")),
        ],
    )
    .await;
    install(&daemon, &sandbox, "npm install --no-audit --no-fund").await;
    serve(&daemon, &sandbox, "NEXT_TELEMETRY_DISABLED=1 exec npx next dev -p 3000").await;
    for (link, next) in links(&daemon, &sandbox).await.into_iter().zip(["the second", "the third"]) {
        browser.open(&link).await;
        browser.reads("counted 0").await;
        // A click has an effect only once the page's scripts run.
        browser
            .sees("(document.getElementById('count').click(), document.body.innerText.includes('counted 1'))")
            .await;
        // Next.js sends a change only to pages that are connected.
        browser.has_socket().await;
        browser.eval::<()>(MARK).await;
        project(&daemon, &sandbox, &[("app/page.js", &page(next))]).await;
        browser.reads(next).await;
        browser.sees(MARKED).await;
        browser.reads("counted 1").await;
        // As a person would, it tells again if nothing happens: just after a change, Next.js may not know the form's action yet.
        let tell = format!(
            "document.body.innerText.includes('told by who saw {next}') || (Date.now() - (window.toldAt ?? 0) > 5000 \
             && (window.toldAt = Date.now(), document.getElementById('told').value = 'by who saw {next}', \
             document.getElementById('tell').click(), false))"
        );
        browser.sees(&tell).await;
    }
    browser.quit().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streamlit_reruns_its_script_on_clicks_and_accepts_files() {
    if !reaches("pypi.org").await {
        return;
    }
    let Some(browser) = Browser::start().await else { return };
    let daemon = Daemon::start_in(home()).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let app = "import streamlit as st\n\
               st.session_state.setdefault('clicks', 0)\n\
               if st.button('more'): st.session_state.clicks += 1\n\
               st.write(f'clicked {st.session_state.clicks} times')\n\
               given = st.file_uploader('a file')\n\
               st.write(f'given {len(given.getvalue()) if given else 0} bytes')\n";
    project(&daemon, &sandbox, &[("app.py", app)]).await;
    install(&daemon, &sandbox, "python3 -m venv v && v/bin/pip install -q streamlit==1.67.0").await;
    serve(&daemon, &sandbox, "exec v/bin/streamlit run app.py --server.port 3000 --server.headless true")
        .await;
    for link in links(&daemon, &sandbox).await {
        browser.open(&link).await;
        browser.reads("clicked 0 times").await;
        browser.eval::<()>(MARK).await;
        let more = "[...document.querySelectorAll('button')].find((one) => one.innerText.trim() === 'more')";
        browser.sees(more).await;
        browser.eval::<()>(&format!("{more}.click()")).await;
        browser.reads("clicked 1 times").await;
        browser.sees("document.querySelector('input[type=file]')").await;
        let give = "const given = new DataTransfer(); given.items.add(new File(['x'.repeat(70000)], 'a.txt')); \
                    const input = document.querySelector('input[type=file]'); input.files = given.files; \
                    input.dispatchEvent(new Event('change', {bubbles: true}))";
        browser.eval::<()>(give).await;
        browser.reads("given 70000 bytes").await;
        browser.sees(MARKED).await;
    }
    browser.quit().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pythons_own_server_lists_files_and_shows_them() {
    let Some(browser) = Browser::start().await else { return };
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    project(&daemon, &sandbox, &[("site/index.html", "<p>a page of many"), ("other.txt", "another")]).await;
    serve(&daemon, &sandbox, "exec python3 -m http.server 3000").await;
    for link in links(&daemon, &sandbox).await {
        browser.open(&link).await;
        browser.reads("Directory listing for /").await;
        // The path is a directory, so the server redirects to `/site/`.
        browser.eval::<()>("location.href = '/site'").await;
        browser.reads("a page of many").await;
        assert!(browser.address().await.ends_with("/site/"), "{}", browser.address().await);
    }
    browser.quit().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_reach_a_page_while_they_are_sent() {
    let Some(browser) = Browser::start().await else { return };
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let counter = "if (req.url !== '/events') return res.writeHead(200, {'content-type': 'text/html'}).end('<p>'); \
        res.writeHead(200, {'content-type': 'text/event-stream'}); let n = 0; \
        const tick = setInterval(() => res.write('data: count ' + n++ + '\\n\\n'), 100); \
        req.on('close', () => clearInterval(tick))";
    serve(&daemon, &sandbox, &node(counter)).await;
    for link in links(&daemon, &sandbox).await {
        browser.open(&link).await;
        let listen =
            "new EventSource('/events').onmessage = (event) => { document.body.innerText = event.data; }";
        browser.eval::<()>(listen).await;
        browser.reads("count 1").await;
        browser.reads("count 9").await;
    }
    browser.quit().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_opened_too_early_reloads_when_the_server_starts() {
    let Some(browser) = Browser::start().await else { return };
    let daemon = Daemon::start().await;
    for (style, key) in ["chat:by-name", "chat:by-port"].into_iter().enumerate() {
        let sandbox = sandbox_with_port(&daemon, key).await;
        browser.open(&links(&daemon, &sandbox).await[style]).await;
        browser.reads("Nothing listens here yet").await;
        browser.sees("JSON.parse(sessionStorage.getItem('sandboxd-preview-tries'))[0] > 1").await;
        serve(&daemon, &sandbox, &node("res.end('here I am')")).await;
        browser.reads("here I am").await;
    }
    browser.quit().await;
    daemon.stop().await;
}

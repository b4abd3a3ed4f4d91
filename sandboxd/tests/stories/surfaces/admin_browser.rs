//! The admin page in a real browser.

use sandbox_api::sandbox::{CreateSandbox, Network};
use sandbox_client::Client;

use crate::support::browser::Browser;
use crate::support::harness::{Daemon, TOKEN, outcome, script, until};

/// A name for a session that would run a script in a page that does not escape it, and changes the direction of its text.
const HOSTILE: &str = "<img src=x onerror=window.ran=1>\u{202e}txt.exe";

async fn sign_in(browser: &Browser, daemon: &Daemon, token: &str) {
    browser.open(&format!("{}/admin/sign-in", daemon.base)).await;
    browser.type_into("#token", token).await;
    browser.click("main button").await;
    browser.reads("Overview").await;
}

async fn open(browser: &Browser, daemon: &Daemon, path: &str) {
    browser.open(&format!("{}{path}", daemon.base)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_manages_a_daemon() {
    let Some(browser) = Browser::start_with_axe().await else { return };
    browser.enlarge().await;
    let daemon = Daemon::start().await;

    open(&browser, &daemon, "/admin").await;
    browser.reads("Sign in").await;
    browser.is_sound("sign in").await;
    browser.picture("admin-sign-in").await;
    browser.type_into("#token", "not-the-token").await;
    browser.click("main button").await;
    browser.reads("This token is not valid").await;
    browser.is_sound("wrong token").await;
    sign_in(&browser, &daemon, TOKEN).await;
    browser.is_sound("overview").await;
    let scripts_see: String = browser.eval("return document.cookie").await;
    assert_eq!(scripts_see, "");

    browser.follow("Projects").await;
    browser.type_into("#name", "Lab!").await;
    browser.click("main .primary").await;
    browser.sees("document.querySelector('#name-problem')").await;
    browser.sees("document.querySelector('#name').value === 'Lab!'").await;
    browser.is_sound("a wrong name").await;
    browser.eval::<()>("document.querySelector('#name').value = ''").await;
    browser.type_into("#name", "lab").await;
    browser.click("main .primary").await;
    browser.reads("The project exists.").await;
    browser.is_sound("project").await;

    let token = create_token(&browser).await;
    let client = Client::new(&daemon.base, &token).unwrap();
    let sandbox = use_sandbox(&client).await;
    let usage =
        async || client.project_usage("lab").await.unwrap().days.first().is_some_and(|day| day.commands > 0);
    until("the usage is counted", usage).await;
    open(&browser, &daemon, "/admin/projects/lab").await;
    plots_are_drawn(&browser).await;
    browser.is_sound("project with usage").await;
    browser.picture("admin-project").await;
    // Denials are counted for a minute, or until the daemon stops. Sessions end with it.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    let client = Client::new(&daemon.base, &token).unwrap();
    open(&browser, &daemon, "/admin").await;
    browser.reads("Sign in").await;
    sign_in(&browser, &daemon, TOKEN).await;
    for (path, text) in [
        ("/admin", "Denied connections"),
        ("/admin/denials", "denied.invalid"),
        ("/admin/audit", "token.create"),
    ] {
        open(&browser, &daemon, path).await;
        browser.reads(text).await;
        browser.is_sound(path).await;
        browser.picture(&format!("admin{}", path.trim_start_matches("/admin").replace('/', "-"))).await;
    }
    quotas(&browser, &daemon).await;
    revoke(&browser, &client).await;
    sign_out(&browser).await;

    let second = daemon.client.create_token("lab", &manager()).await.unwrap();
    sign_in(&browser, &daemon, &second.token).await;
    let navigation: String = browser.eval("return document.querySelector('nav').innerText").await;
    assert!(!navigation.contains("Audit"), "{navigation}");
    park_and_delete(&browser, &daemon, &sandbox).await;
    sign_out(&browser).await;
    browser.quit().await;
    daemon.stop().await;
}

fn manager() -> sandbox_api::project::CreateToken {
    let scopes = ["use", "manage"].map(str::to_owned);
    sandbox_api::project::CreateToken { scopes: Some(scopes.into()), ..Default::default() }
}

/// Creates a token on the page of the project. It is shown once.
async fn create_token(browser: &Browser) -> String {
    browser.type_into("#name", "of the browser").await;
    browser.click("input[value=manage]").await;
    browser.click("form[action$='/tokens'] .primary").await;
    browser.reads("The token is created").await;
    browser.is_sound("a new token").await;
    browser.picture("admin-new-token").await;
    let token: String = browser.eval("return document.querySelector('#secret').textContent").await;
    browser.follow("Back to the project").await;
    browser.reads("of the browser").await;
    let shown: bool = browser.eval("return document.documentElement.outerHTML.includes('sbt_')").await;
    assert!(!shown, "the token is on another page");
    token
}

/// Creates a sandbox with a hostile name, runs a command and is denied a host.
async fn use_sandbox(client: &Client) -> sandbox_api::SandboxId {
    let network = Network { mode: Some("allowlist".into()), allow: Some(vec!["example.com".into()]) };
    let request =
        CreateSandbox { session_key: HOSTILE.into(), network: Some(network), ..CreateSandbox::default() };
    let sandbox = client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let command = script("echo '<script>window.ran=1</script>'; curl -sm 5 http://denied.invalid/; true");
    outcome(client.run(&sandbox, &command).await.unwrap()).await;
    sandbox
}

async fn plots_are_drawn(browser: &Browser) {
    browser.reads("Running time of sandboxes").await;
    let script = "return [...document.querySelectorAll('.plot svg')].map((svg) => {
        const { width, height } = svg.getBoundingClientRect();
        const bars = [...svg.querySelectorAll('rect')].map((bar) => bar.getBoundingClientRect().height);
        return [width, height, Math.max(...bars)];
    })";
    let plots: Vec<[f64; 3]> = browser.eval(script).await;
    assert!(plots.len() >= 3, "{plots:?}");
    for [width, height, bar] in plots {
        assert!(
            width > 300.0 && (100.0..400.0).contains(&height) && bar > height / 3.0,
            "{width} {height} {bar}"
        );
    }
}

async fn quotas(browser: &Browser, daemon: &Daemon) {
    open(browser, daemon, "/admin/projects/lab/quotas").await;
    browser.is_sound("quotas").await;
    browser.picture("admin-quotas").await;
    browser.type_into("#vcpus", "many").await;
    browser.type_into("#runningSandboxes", "7").await;
    browser.click("main .primary").await;
    browser.sees("document.querySelector('#vcpus-problem')").await;
    browser.sees("document.querySelector('#runningSandboxes').value === '7'").await;
    browser.eval::<()>("document.querySelector('#vcpus').value = '12'").await;
    browser.click("main .primary").await;
    browser.reads("The quotas are saved.").await;
    let quotas = daemon.client.project("lab").await.unwrap().quotas;
    assert_eq!((quotas.vcpus, quotas.running_sandboxes), (Some(12), Some(7)));
    browser.is_sound("a project with quotas").await;
}

async fn revoke(browser: &Browser, client: &Client) {
    client.whoami().await.unwrap();
    browser.follow("Revoke").await;
    browser.reads("Revoke this token?").await;
    browser.is_sound("revoke").await;
    browser.click("main button.danger").await;
    browser.reads("The token is revoked.").await;
    client.whoami().await.unwrap_err();
}

/// Nothing of the session is left, also not for the Back button.
async fn sign_out(browser: &Browser) {
    browser.click(".who button").await;
    browser.reads("Sign in").await;
    browser.back().await;
    browser.reads("Sign in").await;
    let shown: String = browser.eval("return document.body.innerText").await;
    assert!(!shown.contains("Sign out") && !shown.contains("lab"), "{shown}");
}

async fn park_and_delete(browser: &Browser, daemon: &Daemon, sandbox: &sandbox_api::SandboxId) {
    browser.follow("Sandboxes").await;
    browser.reads("onerror").await;
    browser.is_sound("sandboxes").await;
    browser.picture("admin-sandboxes").await;
    open(browser, daemon, &format!("/admin/sandboxes/{sandbox}")).await;
    browser.reads("denied.invalid").await;
    browser.reads("\\u{202e}").await;
    browser.is_sound("sandbox").await;
    browser.picture("admin-sandbox").await;
    let ran: bool = browser.eval("return window.ran === 1").await;
    assert!(!ran, "a text of a sandbox is a script");
    browser.resize(400, 800).await;
    let over: i64 = browser.eval("return document.documentElement.scrollWidth - window.innerWidth").await;
    assert!(over <= 0, "{over} pixels too wide");
    browser.is_sound("narrow").await;
    browser.picture("admin-narrow").await;
    browser.enlarge().await;
    browser.prefer_dark().await;
    for (path, what) in [
        (format!("/admin/sandboxes/{sandbox}"), "dark-sandbox"),
        ("/admin/projects/lab".into(), "dark-project"),
    ] {
        open(browser, daemon, &path).await;
        browser.is_sound(what).await;
        browser.picture(&format!("admin-{what}")).await;
    }
    browser.back().await;
    browser.click("form[action$='/park'] button").await;
    browser.reads("The sandbox is parked.").await;
    browser.click("form[action$='/wake'] button").await;
    browser.reads("The sandbox is running.").await;
    browser.follow("Delete…").await;
    browser.reads("Delete this sandbox?").await;
    browser.is_sound("delete").await;
    browser.click("main button.danger").await;
    browser.reads("are deleted").await;
    daemon.client.get(sandbox).await.unwrap_err();
}

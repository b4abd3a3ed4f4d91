//! The admin page over HTTP: sessions, cookies and forms.

use sandbox_api::project::CreateToken;
use sandboxd::model::limits;

use super::home_with_tokens;
use crate::support::admin_page::{AdminPage, COOKIE};
use crate::support::harness::{Daemon, Home, TOKEN, until};
use crate::support::http::{Answer, HttpClient};
use crate::support::operations::operations;

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; \
    frame-ancestors 'none'; base-uri 'none'";

pub(super) async fn has_project(daemon: &Daemon, name: &str) -> bool {
    daemon.client.project(name).await.is_ok()
}

pub(super) fn token(scopes: &[&str]) -> CreateToken {
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    CreateToken { scopes: Some(scopes), ..CreateToken::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_signs_in_and_gets_a_cookie_and_no_token() {
    let daemon = Daemon::start_in(home_with_tokens()).await;
    let page = AdminPage::of(&daemon);
    assert!(page.open("/admin").await.is_signed_out());
    let answer = page.sign_in(TOKEN).await;
    let cookie = answer.header("set-cookie");
    let (value, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/admin; Max-Age=43200");
    assert!(value.starts_with(&format!("{COOKIE}=")) && !value.contains(TOKEN), "{cookie}");

    let page = AdminPage::signed_in(&daemon, TOKEN).await;
    for path in ["/admin", "/admin/projects", "/admin/sandboxes", "/admin/denials", "/admin/audit"] {
        let answer = page.open(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        is_private(&answer, path);
    }
    for path in ["/admin/nothing", "/admin/sandboxes/nothing", "/admin/sign-in"] {
        is_private(&page.open(path).await, path);
    }
    let wrong = page.sign_in("ann-token").await;
    assert!(wrong.status == 403 && wrong.text().contains("tool token"), "{}", wrong.text());
    for wrong in ["", &"x".repeat(10_000), "nonsense", "\u{e9}"] {
        let answer = page.sign_in(wrong).await;
        assert!(answer.status == 403 && answer.header("set-cookie").is_empty(), "{wrong}");
    }
    daemon.stop().await;
}

fn is_private(answer: &Answer, path: &str) {
    assert!(!answer.text().contains(TOKEN), "{path}: the token is on the page");
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("cache-control", "no-store"),
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(answer.header(name), value, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_counted_like_those_of_requests() {
    let daemon = Daemon::start().await;
    let page = AdminPage::of(&daemon);
    let mut limited = None;
    for number in 0..=2 * limits::AUTH_FAILURES.get() {
        let answer = page.sign_in(&format!("wrong-{number}")).await;
        if answer.status != 403 {
            limited = Some(answer);
            break;
        }
    }
    let limited = limited.expect("no limit");
    assert_eq!(limited.status, 429);
    assert!((1..=2).contains(&limited.header("retry-after").parse::<u64>().unwrap()));
    let metrics = HttpClient::of(&daemon).get("/metrics").await.text();
    let failures = metrics.lines().find(|line| line.starts_with("sandboxd_auth_failures_total")).unwrap();
    assert!(failures.rsplit(' ').next().unwrap().parse::<u32>().unwrap() > limits::AUTH_FAILURES.get());
    // The right token is accepted at any time.
    AdminPage::signed_in(&daemon, TOKEN).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_form_of_the_session_changes_something() {
    let daemon = Daemon::start().await;
    let page = AdminPage::signed_in(&daemon, TOKEN).await;
    let other = AdminPage::signed_in(&daemon, TOKEN).await;
    let (csrf, of_other) = (page.csrf().await, other.csrf().await);
    assert_ne!(csrf, of_other);
    let name = ("name", "forged");
    for fields in [&[name][..], &[name, ("csrf", "")], &[name, ("csrf", &of_other)]] {
        let answer = page.send("/admin/projects", fields).await;
        assert!(answer.status == 403 && answer.text().contains("does not belong"), "{}", answer.text());
    }
    let fields = [name, ("csrf", csrf.as_str())];
    let form = || page.form("/admin/projects", &fields);
    let without_origin = || page.request("POST", "/admin/projects").body(format!("csrf={csrf}&name=forged"));
    let kind = "application/x-www-form-urlencoded";
    let replaced = |name: &'static str, value: &str| {
        let mut request = form().build().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
        request
    };
    for (what, request, status) in [
        ("another origin", replaced("origin", "https://evil.example"), 403),
        ("no origin of a page", replaced("origin", "null"), 403),
        ("another port", replaced("sec-fetch-site", "same-site"), 403),
        ("another site", replaced("sec-fetch-site", "cross-site"), 403),
        ("typed", replaced("sec-fetch-site", "none"), 403),
        ("no origin", without_origin().header("content-type", kind).build().unwrap(), 403),
        ("JSON", replaced("content-type", "application/json"), 415),
        ("plain text", replaced("content-type", "text/plain"), 415),
    ] {
        let status_of = reqwest::Client::new().execute(request).await.unwrap().status();
        assert_eq!(status_of, status, "{what}");
        assert!(!has_project(&daemon, "forged").await, "{what}");
    }
    // To sign in, there is no session yet. So only the origin tells a forged form.
    let forged = page.form("/admin/sign-in", &[("token", TOKEN)]).header("sec-fetch-site", "same-site");
    assert_eq!(Answer::to(forged).await.status, 403);
    let own = page.send("/admin/projects", &fields).await;
    assert_eq!((own.status, own.header("location")), (303, "/admin/projects/forged?done=project-created"));
    assert!(has_project(&daemon, "forged").await);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_token_and_when_it_signs_out() {
    let daemon = Daemon::start().await;
    daemon.client.create_project("lab").await.unwrap();
    let created = daemon.client.create_token("lab", &token(&["use", "manage"])).await.unwrap();
    let page = AdminPage::signed_in(&daemon, &created.token).await;
    assert_eq!(page.open("/admin/projects/lab").await.status, 200);
    daemon.client.revoke_token("lab", &created.properties.token_id).await.unwrap();
    let ended = page.open("/admin/projects/lab").await;
    assert!(ended.is_signed_out() && ended.header("set-cookie").contains("Max-Age=0"), "{ended:?}");
    assert!(page.sign_in(&created.token).await.status == 403);

    let short = CreateToken { ttl_ms: Some(2_000), ..token(&["use"]) };
    let short = daemon.client.create_token("lab", &short).await.unwrap();
    let page = AdminPage::signed_in(&daemon, &short.token).await;
    until("the token has expired", async || page.open("/admin").await.is_signed_out()).await;

    // A token that revokes itself still gets its response.
    let created = daemon.client.create_token("lab", &token(&["use", "manage"])).await.unwrap();
    let page = AdminPage::signed_in(&daemon, &created.token).await;
    let path = format!("/admin/projects/lab/tokens/{}/revoke", created.properties.token_id);
    assert_eq!(page.submit(&path, &[]).await.status, 303);
    assert!(page.open("/admin").await.is_signed_out());

    let page = AdminPage::signed_in(&daemon, TOKEN).await;
    assert!(page.send("/admin/sign-out", &[]).await.status == 403, "another page cannot sign out");
    assert_eq!(page.open("/admin").await.status, 200);
    assert!(page.submit("/admin/sign-out", &[]).await.is_signed_out());
    assert!(page.open("/admin").await.is_signed_out());
    // Signing in again ends the previous session of the browser.
    let first = AdminPage::signed_in(&daemon, TOKEN).await;
    assert_eq!(first.sign_in(TOKEN).await.status, 303);
    assert!(first.open("/admin").await.is_signed_out());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_opens_nothing_else_and_nothing_else_opens_the_page() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let page = AdminPage::signed_in(&daemon, TOKEN).await;
    let surfaces = ["/mcp", "/tools/openapi.json", "/open-terminal/api/config"];
    let surfaces = surfaces.map(|path| ("GET".to_owned(), path.to_owned()));
    let routes = operations(&api).await.into_iter().filter(|operation| !operation.is_open());
    let routes = routes.map(|operation| (operation.method, operation.path)).chain(surfaces);
    let session = page.session.clone().unwrap();
    for (method, path) in routes {
        let with_cookie = Answer::to(page.request(&method, &path)).await;
        assert_eq!(with_cookie.status, 401, "{method} {path}");
        // The cookie's value is not a token.
        let as_token = page.with_session(None).request(&method, &path).bearer_auth(&session);
        assert!(matches!(Answer::to(as_token).await.status, 401 | 429), "{method} {path}");
    }
    let without_session = AdminPage::of(&daemon);
    let basic = |request: reqwest::RequestBuilder| request.basic_auth("any", Some(TOKEN));
    for request in [
        without_session.request("GET", "/admin").bearer_auth(TOKEN),
        basic(without_session.request("GET", "/admin")),
        without_session.request("GET", &format!("/admin?token={TOKEN}&ticket={TOKEN}")),
        without_session.request("GET", "/admin").header("cookie", format!("{COOKIE}={TOKEN}")),
        without_session.request("GET", "/admin").header("cookie", format!("__Host-{COOKIE}={session}")),
    ] {
        assert!(Answer::to(request).await.is_signed_out());
    }
    let two =
        without_session.request("GET", "/admin").header("cookie", format!("{COOKIE}={session}; {COOKIE}=x"));
    assert_eq!(Answer::to(two).await.status, 400);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_page_its_address_is_like_any_other() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_ADMIN_PAGE", "false")).await;
    let page = AdminPage::of(&daemon);
    for path in ["/admin", "/admin/sign-in", "/admin/style.css"] {
        assert_eq!(page.open(path).await.status, 401, "{path}");
        assert_eq!(Answer::to(page.request("GET", path).bearer_auth(TOKEN)).await.status, 404, "{path}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_with_tls_the_cookie_is_for_tls_and_this_host_only() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_TRUSTED_PROXIES", "127.0.0.1")).await;
    let page = AdminPage::of(&daemon);
    let https = |request: reqwest::RequestBuilder| request.header("x-forwarded-proto", "https");
    let answer = Answer::to(https(page.form("/admin/sign-in", &[("token", TOKEN)]))).await;
    let cookie = answer.header("set-cookie").to_owned();
    let (value, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "HttpOnly; SameSite=Strict; Secure; Path=/; Max-Age=43200");
    assert!(value.starts_with("__Host-sandboxd_admin="), "{value}");
    let open = |request: reqwest::RequestBuilder| Answer::to(request.header("cookie", value));
    assert_eq!(open(https(page.request("GET", "/admin"))).await.status, 200);
    assert!(open(page.request("GET", "/admin")).await.is_signed_out(), "over plain HTTP");
    daemon.stop().await;
}

//! Signing in with an identity provider: npm's `oidc-provider`, with its real redirects.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};

use chat::account::Role;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use test_daemon::packages::NpmPackages;
use test_daemon::until;
use url::Url;

use super::{PASSWORD, Person, cookie_of, sign_in};
use crate::test_app::{TestApp, answer};

const PROVIDER: &str = "oidc-provider@9.13.3";

/// The version of Node that it needs.
const NODE: &str = "22.19.0";

const SCRIPT: &str = include_str!("oidc_provider.mjs");

/// Most redirects of one sign-in.
const MAX_REDIRECTS: usize = 10;

/// A provider as a process, which ends with the story.
struct Provider {
    base: String,
    child: Child,
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn packages() -> Option<NpmPackages> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oidc-npm");
    NpmPackages::install(&dir, &[PROVIDER], Some(NODE))
}

/// Starts an app and its provider. `None` if the provider cannot be installed here.
async fn start() -> Option<(TestApp, Provider)> {
    let Some(packages) = tokio::task::spawn_blocking(packages).await.unwrap() else {
        test_daemon::skip(format!("{PROVIDER} cannot be installed here"));
        return None;
    };
    let port = test_daemon::free_port();
    let base = format!("http://127.0.0.1:{port}");
    let app = TestApp::with_issuer(&base).await;
    let mut command = packages.script("provider.mjs", SCRIPT);
    command.arg(port.to_string()).arg(format!("{}/api/oidc/callback", app.base));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let provider = Provider { base, child };
    let look = || async { app.http.get(format!("{}/as?name=ann", provider.base)).send().await.is_ok() };
    until("the provider", look).await;
    Some((app, provider))
}

/// A browser on its way to the provider and back.
struct Browser {
    http: reqwest::Client,
    /// The cookie of the app.
    own: String,
    url: Url,
}

impl Browser {
    async fn begin(app: &TestApp, invitation: Option<&str>) -> Self {
        let response = begin(app, invitation).await;
        assert_eq!(response.status(), 200);
        let set = response.headers()["set-cookie"].to_str().unwrap();
        assert!(set.contains("SameSite=Lax") && set.contains("HttpOnly"), "{set}");
        let own = set.split(';').next().unwrap().to_owned();
        let body: Value = response.json().await.unwrap();
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        Self { http: http.build().unwrap(), own, url: body["url"].as_str().unwrap().parse().unwrap() }
    }

    /// Changes a parameter of the request to the provider.
    fn with(mut self, name: &str, value: &str) -> Self {
        let pairs: Vec<(String, String)> = self.url.query_pairs().into_owned().collect();
        assert!(pairs.iter().any(|(known, _)| known == name), "{name}: {}", self.url);
        let changed = pairs.iter().map(|(known, old)| (known, if known == name { value } else { old }));
        self.url.query_pairs_mut().clear().extend_pairs(changed);
        self
    }

    /// Follows the provider's redirects up to the app's callback, whose address it returns.
    async fn authorize(&self, app: &TestApp) -> Url {
        let (mut url, mut cookies) = (self.url.clone(), BTreeMap::new());
        for _ in 0..MAX_REDIRECTS {
            let header: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let request = self.http.get(url.clone()).header("cookie", header.join("; "));
            let response = request.send().await.unwrap();
            for cookie in response.headers().get_all("set-cookie") {
                let (name, rest) = cookie.to_str().unwrap().split_once('=').unwrap();
                cookies.insert(name.to_owned(), rest.split(';').next().unwrap().to_owned());
            }
            let Some(location) = response.headers().get("location") else {
                panic!("{url}: {} {}", response.status(), response.text().await.unwrap());
            };
            url = url.join(location.to_str().unwrap()).unwrap();
            if url.as_str().starts_with(&app.base) {
                return url;
            }
        }
        panic!("too many redirects: {url}");
    }

    /// Opens the callback's address.
    async fn comes_back(&self, url: Url) -> Response {
        let request = self.http.get(url).header("sec-fetch-site", "cross-site");
        request.header("cookie", &self.own).send().await.unwrap()
    }
}

async fn begin(app: &TestApp, invitation: Option<&str>) -> Response {
    let request = app.request(Method::POST, "/api/oidc").header("x-chat-request", "1");
    request.json(&json!({ "invitation": invitation })).send().await.unwrap()
}

/// Says who signs in at the provider.
async fn become_user(app: &TestApp, provider: &Provider, name: &str) {
    app.http.get(format!("{}/as?name={name}", provider.base)).send().await.unwrap();
}

/// The session of a callback that succeeded.
fn session(response: &Response) -> String {
    assert_eq!((response.status().as_u16(), &response.headers()["location"]), (303, &"/".parse().unwrap()));
    let cookies = response.headers().get_all("set-cookie").iter().map(|cookie| cookie.to_str().unwrap());
    let session = cookies.filter(|cookie| cookie.starts_with("chat_session=")).collect::<Vec<_>>();
    assert!(session.len() == 1 && session[0].contains("SameSite=Strict"), "{session:?}");
    session[0].split(';').next().unwrap().to_owned()
}

/// The message of a callback that failed, without a session.
fn refusal(response: &Response) -> String {
    assert_eq!(response.status(), 303);
    let mut cookies = response.headers().get_all("set-cookie").iter();
    assert!(!cookies.any(|cookie| cookie.to_str().unwrap().contains("chat_session=")));
    let location = response.headers()["location"].to_str().unwrap();
    let fragment = location.strip_prefix("/#sign-in-error=").expect("an error").replace('+', " ");
    fragment.replace("%3B", ";")
}

async fn name_of(app: &TestApp, cookie: &str) -> String {
    let (_, info) = answer(app.request(Method::GET, "/api/app").header("cookie", cookie)).await;
    info["user"]["name"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn people_sign_in_with_the_provider() {
    let Some((app, provider)) = start().await else { return };
    assert_eq!(begin(&app, None).await.status(), 404, "the operator makes the first account");
    let admin = Person::new(&app, "root", Role::Admin).await;

    // Twice: the account is found again by its identity.
    for _ in 0..2 {
        let browser = Browser::begin(&app, None).await;
        let back = browser.authorize(&app).await;
        let cookie = session(&browser.comes_back(back).await);
        assert_eq!(name_of(&app, &cookie).await, "ann");
    }
    assert_eq!(app.people.users().await.unwrap().len(), 2);
    assert_eq!(sign_in(&app, "ann", "").send().await.unwrap().status(), 401, "she has no password");

    for (name, reason) in [("visitor", "another domain"), ("liar", "an address that is not verified")] {
        become_user(&app, &provider, name).await;
        let browser = Browser::begin(&app, None).await;
        let back = browser.authorize(&app).await;
        let refused = refusal(&browser.comes_back(back).await);
        assert!(refused.contains("ask an admin for an invitation"), "{reason}: {refused}");
    }
    let invite = admin.sends(app.request(Method::POST, "/api/invitations")).json(&json!({ "role": "admin" }));
    let (_, made) = answer(invite).await;
    become_user(&app, &provider, "visitor").await;
    let browser = Browser::begin(&app, made["secret"].as_str()).await;
    let back = browser.authorize(&app).await;
    let cookie = session(&browser.comes_back(back).await);
    assert_eq!(name_of(&app, &cookie).await, "visitor");
    let users = app.people.users().await.unwrap();
    let visitor = users.iter().find(|user| user.name.as_str() == "visitor").unwrap();
    assert_eq!((visitor.role, visitor.has_password), (Role::Admin, false));

    let disable = app.request(Method::PATCH, &format!("/api/users/{}", visitor.id));
    assert_eq!(answer(admin.sends(disable).json(&json!({ "disabled": true }))).await.0, 200);
    let browser = Browser::begin(&app, None).await;
    let back = browser.authorize(&app).await;
    assert!(refusal(&browser.comes_back(back).await).contains("disabled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_was_tampered_with_is_refused() {
    let Some((app, mut provider)) = start().await else { return };
    Person::new(&app, "root", Role::Admin).await;

    let browser = Browser::begin(&app, None).await;
    let back = browser.authorize(&app).await;
    let mut other = Browser::begin(&app, None).await;
    assert!(refusal(&other.comes_back(back.clone()).await).contains("another browser"));
    assert!(refusal(&browser.comes_back(back).await).contains("not begun here"), "it is used up");

    let browser = Browser::begin(&app, None).await;
    let back = browser.authorize(&app).await;
    other.own = String::new();
    assert!(refusal(&other.comes_back(back).await).contains("another browser"), "without the cookie");

    let browser = Browser::begin(&app, None).await.with("state", "a-state-of-the-attacker");
    let back = browser.authorize(&app).await;
    assert!(refusal(&browser.comes_back(back).await).contains("not begun here"), "another state");

    let browser = Browser::begin(&app, None).await;
    let back = browser.authorize(&app).await;
    session(&browser.comes_back(back.clone()).await);
    assert!(refusal(&browser.comes_back(back.clone()).await).contains("not begun here"), "a second time");
    let code = back.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let browser = Browser::begin(&app, None).await;
    let mut back = browser.authorize(&app).await;
    let pairs: Vec<(String, String)> = back.query_pairs().into_owned().collect();
    let replaced = pairs.iter().map(|(name, old)| (name, if name == "code" { &code } else { old }));
    back.query_pairs_mut().clear().extend_pairs(replaced);
    assert!(refusal(&browser.comes_back(back).await).contains("rejects this sign-in"), "an old code");

    for (name, value, wanted) in [
        ("nonce", "a-nonce-of-the-attacker", "is not valid"),
        ("client_id", "other", "rejects this sign-in"),
        ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "rejects this sign-in"),
    ] {
        let browser = Browser::begin(&app, None).await.with(name, value);
        let back = browser.authorize(&app).await;
        let refused = refusal(&browser.comes_back(back).await);
        assert!(refused.contains(wanted), "{name}: {refused}");
    }
    let browser = Browser::begin(&app, None).await;
    let mut back = browser.authorize(&app).await;
    let pairs: Vec<(String, String)> = back.query_pairs().into_owned().collect();
    let elsewhere = "https://issuer.example".to_owned();
    let replaced = pairs.iter().map(|(name, old)| (name, if name == "iss" { &elsewhere } else { old }));
    back.query_pairs_mut().clear().extend_pairs(replaced);
    assert!(refusal(&browser.comes_back(back).await).contains("another identity provider"));

    provider.child.kill().unwrap();
    let down = begin(&app, None).await;
    assert_eq!(down.status(), 503);
    assert!(down.text().await.unwrap().contains("accounts with passwords still work"));
    cookie_of(&sign_in(&app, "root", PASSWORD).send().await.unwrap());
}

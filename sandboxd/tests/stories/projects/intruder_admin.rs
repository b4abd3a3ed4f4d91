//! Every page and form of the admin surface, asked by principals who must not see what it is about.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use sandbox_api::project::{CreateChildToken, CreateToken};
use sandbox_client::Client;

use super::intruder::{PROBES, Victim, assert_unharmed, victim};
use super::{client_of, token_of, without_rate_limits};
use crate::support::admin_page::{AdminPage, COOKIE};
use crate::support::harness::{Daemon, Home};
use crate::support::http::Answer;
use crate::support::operations::NO_SANDBOX;

/// Routes without an id of the victim. They show and change only what is the session's own.
const OWN: [&str; 11] = [
    "GET /",
    "GET /audit",
    "GET /denials",
    "GET /icon.svg",
    "GET /projects",
    "GET /sandboxes",
    "GET /sign-in",
    "GET /style.css",
    "POST /projects",
    "POST /sign-in",
    "POST /sign-out",
];

/// Routes with an id.
const WITH_IDS: [&str; 12] = [
    "GET /projects/{project}",
    "GET /projects/{project}/quotas",
    "GET /projects/{project}/tokens/{token}/revoke",
    "GET /sandboxes/{sandbox}",
    "GET /sandboxes/{sandbox}/delete",
    "POST /projects/{project}/quotas",
    "POST /projects/{project}/subjects/revoke",
    "POST /projects/{project}/tokens",
    "POST /projects/{project}/tokens/{token}/revoke",
    "POST /sandboxes/{sandbox}/delete",
    "POST /sandboxes/{sandbox}/park",
    "POST /sandboxes/{sandbox}/wake",
];

/// Number of the next form.
static FORM: AtomicUsize = AtomicUsize::new(0);

/// Routes that every browser may open.
const OPEN: [&str; 3] = ["GET /style.css", "GET /icon.svg", "GET /sign-in"];

fn filled(path: &str, values: [(&str, &str); 3]) -> String {
    let path = values.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    assert!(!path.contains('{'), "a parameter without a value: {path}");
    format!("/admin{path}")
}

fn of_victim(victim: &Victim) -> [(&'static str, &str); 3] {
    [("{project}", "lab"), ("{token}", victim.token.as_str()), ("{sandbox}", victim.sandbox.as_str())]
}

fn that_do_not_exist(is_of_project: bool) -> [(&'static str, &'static str); 3] {
    let project = if is_of_project { "lab" } else { "no-such-project" };
    [("{project}", project), ("{token}", "tok_0000000000000000"), ("{sandbox}", NO_SANDBOX)]
}

async fn ask(page: &AdminPage, csrf: &str, route: &str, path: &str) -> Answer {
    match route.split_once(' ').unwrap().0 {
        "GET" => page.open(path).await,
        _ => {
            // Valid for each of the forms, and not sent before.
            let form = FORM.fetch_add(1, Ordering::Relaxed).to_string();
            let fields = [("csrf", csrf), ("form", &form), ("scope", "use"), ("revoked-subject", "ann")];
            page.send(path, &fields).await
        }
    }
}

/// What an intruder may compare. Ids that it has sent are not the answer's.
fn shape(answer: &Answer, values: [(&str, &str); 3]) -> (u16, BTreeSet<String>, String, String) {
    let headers = answer.headers.keys().map(ToString::to_string).collect();
    let without = |text: &str| {
        let around = [("/projects/", ""), (">", "<"), ("/sandboxes/", ""), ("/tokens/", "")];
        around.iter().fold(text.to_owned(), |text, (before, after)| {
            let replace = |text: String, (name, value): &(&str, &str)| {
                text.replace(&format!("{before}{value}{after}"), &format!("{before}{name}{after}"))
            };
            values.iter().fold(text, replace)
        })
    };
    (answer.status, headers, without(answer.header("location")), without(&answer.text()))
}

async fn intrude(daemon: &Daemon, token: &str, is_of_project: bool, victim: &Victim) {
    let page = AdminPage::signed_in(daemon, token).await;
    let csrf = page.csrf().await;
    let (real, unknown) = (of_victim(victim), that_do_not_exist(is_of_project));
    let is_foreign =
        |route: &&str| !is_of_project || !route.contains("{project}") || route.contains("{token}");
    for route in WITH_IDS.into_iter().filter(is_foreign) {
        let path = route.split_once(' ').unwrap().1;
        let nowhere = ask(&page, &csrf, route, &filled(path, unknown)).await;
        let expected = shape(&nowhere, unknown);
        // The API's revoke succeeds for a token that does not exist.
        let is_revoke = route == "POST /projects/{project}/tokens/{token}/revoke" && is_of_project;
        assert!(matches!(expected.0, 403 | 404) || (is_revoke && expected.0 == 303), "{route}: {expected:?}");
        let path = filled(path, real);
        for answer in join_all((0..PROBES).map(|_| ask(&page, &csrf, route, &path))).await {
            assert_eq!(shape(&answer, real), expected, "{route}");
        }
    }
    for path in ["/admin", "/admin/sandboxes", "/admin/denials", "/admin/projects"] {
        let text = page.open(path).await.text();
        assert!(!text.contains("chat:victim") && !text.contains(victim.sandbox.as_str()), "{path}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_ids_are_answered_as_unknown_ones_on_every_page() {
    let known: BTreeSet<&str> = OWN.into_iter().chain(WITH_IDS).collect();
    let routes = admin_page::route_names();
    assert_eq!(known, routes.iter().map(String::as_str).collect(), "a route that this story does not know");

    let daemon = Daemon::start_in(without_rate_limits(Home::new())).await;
    let owner = client_of(&daemon, "lab", Some("ann"), &["use", "manage"]).await;
    let victim = victim(&owner).await;
    for (project, subject) in [("press", None), ("press", Some("ann")), ("lab", Some("bob"))] {
        let token = token_of(&daemon, project, subject, &["use", "manage"]).await.token;
        intrude(&daemon, &token, project == "lab", &victim).await;
    }
    // A token of the victim's own subject, but for another sandbox, which cannot manage.
    let other =
        sandbox_api::sandbox::CreateSandbox { session_key: "chat:other".into(), ..Default::default() };
    let other = owner.create_or_reconnect(&other).await.unwrap().sandbox_id;
    let request = CreateChildToken { sandbox_id: Some(other), ..CreateChildToken::default() };
    let token = owner.create_child_token(&request).await.unwrap().token;
    intrude(&daemon, &token, true, &victim).await;
    assert_unharmed(&owner, &victim).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_valid_session_every_page_leads_to_the_form() {
    let daemon = Daemon::start().await;
    let owner = client_of(&daemon, "lab", Some("ann"), &["use", "manage"]).await;
    let victim = victim(&owner).await;
    let revoked = token_of(&daemon, "lab", Some("ann"), &["use", "manage"]).await;
    let of_parent = Client::new(&daemon.base, &revoked.token).unwrap();
    let child = of_parent.create_child_token(&CreateChildToken::default()).await.unwrap().token;
    let short = CreateToken { ttl_ms: Some(5_000), ..CreateToken::default() };
    let short = daemon.client.create_token("lab", &short).await.unwrap();
    let mut pages = Vec::new();
    for token in [&revoked.token, &child, &short.token] {
        let page = AdminPage::signed_in(&daemon, token).await;
        pages.push((page.csrf().await, page));
    }
    let signed_out = AdminPage::signed_in(&daemon, &revoked.token).await;
    let csrf = signed_out.csrf().await;
    signed_out.submit("/admin/sign-out", &[]).await;
    pages.push((csrf.clone(), signed_out));
    daemon.client.revoke_token("lab", &revoked.properties.token_id).await.unwrap();
    crate::support::harness::until("the token has expired", async || {
        Client::new(&daemon.base, &short.token).unwrap().whoami().await.is_err()
    })
    .await;
    for session in ["", "x", &"A".repeat(43), &format!("{0}; {COOKIE}2={0}", revoked.token)] {
        pages.push((csrf.clone(), AdminPage::of(&daemon).with_session(Some(session))));
    }
    pages.push((csrf, AdminPage::of(&daemon)));
    for route in admin_page::route_names() {
        let path = filled(route.split_once(' ').unwrap().1, of_victim(&victim));
        for (csrf, page) in &pages {
            let answer = ask(page, csrf, &route, &path).await;
            let is_open = OPEN.contains(&route.as_str()) && answer.status == 200;
            let is_refused = route == "POST /sign-in" && answer.status == 403;
            assert!(
                answer.is_signed_out() || is_open || is_refused,
                "{route}: {} {}",
                answer.status,
                answer.text()
            );
        }
    }
    for token in [&revoked.token, &child, &short.token] {
        assert_eq!(AdminPage::of(&daemon).sign_in(token).await.status, 403);
    }
    assert_unharmed(&owner, &victim).await;
    daemon.stop().await;
}

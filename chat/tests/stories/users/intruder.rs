//! Everyone who must not reach a chat, on every route.

use std::collections::BTreeMap;

use chat::account::{Role, SecretHash};
use futures::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use super::Person;
use crate::test_app::TestApp;

/// Routes that respond to everyone. Every other one needs a session.
const OPEN: [&str; 8] = [
    "GET /api/health",
    "GET /api/app",
    "GET /api/admin/access",
    "GET /api/terminals/{ticket}",
    "POST /api/session",
    "POST /api/invitations/accept",
    "POST /api/oidc",
    "GET /api/oidc/callback",
];

/// Routes of the caller's own things, and of admins. The rest name a chat.
const WITHOUT_CHAT: [&str; 14] = [
    "POST /api/chat",
    "POST /api/temporary",
    "GET /api/changes",
    "GET /api/chats",
    "DELETE /api/session",
    "PUT /api/account/password",
    "GET /api/account/sessions",
    "DELETE /api/account/sessions/{session}",
    "GET /api/users",
    "PATCH /api/users/{user}",
    "DELETE /api/users/{user}/sessions",
    "GET /api/invitations",
    "POST /api/invitations",
    "DELETE /api/invitations/{invitation}",
];

/// Probes of each kind, at once.
const PROBES: usize = 30;

fn routes() -> Vec<String> {
    let listed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/web/dev/routes.json"));
    serde_json::from_str(&listed.unwrap()).unwrap()
}

fn private() -> impl Iterator<Item = String> {
    routes().into_iter().filter(|route| !OPEN.contains(&route.as_str()))
}

/// A request to a route, whose content would be accepted.
fn request(app: &TestApp, route: &str, id: &str) -> RequestBuilder {
    let (method, path) = route.split_once(' ').unwrap();
    let path = ["{id}", "{session}", "{user}", "{invitation}", "{terminal}"]
        .iter()
        .fold(path.to_owned(), |path, name| path.replace(name, id));
    let request = match route {
        "POST /api/chat" => return app.say(id, "/bash true"),
        _ if path.contains("/files") => app.request(method.parse().unwrap(), &format!("{path}?path=file")),
        _ => app.request(method.parse().unwrap(), &path),
    };
    let body = match route {
        "PATCH /api/chats/{id}" => json!({ "title": "Taken" }),
        "POST /api/chats/{id}/stop" => json!({}),
        "POST /api/chats/{id}/terminals" => json!({ "cols": 80, "rows": 24 }),
        "POST /api/chats/{id}/network/allow" => json!({ "host": "evil.example" }),
        "PUT /api/account/password" => {
            json!({ "current": super::PASSWORD, "new": "a password of the intruder" })
        }
        "PATCH /api/users/{user}" => json!({ "role": "admin" }),
        "POST /api/invitations" => json!({ "role": "admin" }),
        "PUT /api/chats/{id}/files/content" => return request.body("evil"),
        _ => return request,
    };
    request.json(&body)
}

/// What a response shows, without its time.
async fn shown(request: RequestBuilder) -> (u16, BTreeMap<String, String>, String) {
    let response = request.send().await.unwrap();
    let headers = response.headers().iter().filter(|(name, _)| *name != "date");
    let headers = headers.map(|(name, value)| (name.to_string(), format!("{value:?}"))).collect();
    (response.status().as_u16(), headers, response.text().await.unwrap())
}

/// Moves a time of a session into the past.
async fn expire(app: &TestApp, whose: &Person, column: &str) {
    let file = SqliteConnectOptions::new().filename(app.state_dir().join("chat.db"));
    let mut conn = file.connect().await.unwrap();
    let update = format!("UPDATE sessions SET {column} = 0 WHERE token_hash = ?");
    let secret = whose.cookie.split_once('=').unwrap().1;
    let update = sqlx::query(sqlx::AssertSqlSafe(update)).bind(SecretHash::of(secret).as_bytes().to_vec());
    assert_eq!(update.execute(&mut conn).await.unwrap().rows_affected(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_session_no_route_responds() {
    let app = TestApp::start().await;
    let ann = Person::new(&app, "ann", Role::Admin).await;
    ann.says(&app, "1", "/bash echo secret >file").await;
    let ended = ann.again(&app).await;
    assert_eq!(ended.asks(&app, Method::DELETE, "/api/session").await.0, 204);
    let (idle, old) = (ann.again(&app).await, ann.again(&app).await);
    expire(&app, &idle, "used_at").await;
    expire(&app, &old, "created_at").await;
    let cookies = [
        String::new(),
        ended.cookie.clone(),
        idle.cookie,
        old.cookie,
        "chat_session=guessed".into(),
        format!("__Host-{}", ann.cookie),
        ann.cookie.to_uppercase(),
    ];
    for route in private() {
        for cookie in &cookies {
            let probes = (0..PROBES).map(|_| {
                let request = request(&app, &route, "1").header("x-chat-request", "1");
                shown(if cookie.is_empty() { request } else { request.header("cookie", cookie) })
            });
            for (status, _, body) in join_all(probes).await {
                assert_eq!((status, body.contains("signed_out")), (401, true), "{route} {cookie}: {body}");
            }
        }
        let twice = request(&app, &route, "1").header("cookie", format!("{}; {0}", ann.cookie));
        assert_eq!(shown(twice.header("x-chat-request", "1")).await.0, 400, "{route} with two cookies");
        let of_other_page = ann.sends(request(&app, &route, "1")).header("origin", "http://127.0.0.1:42000");
        assert_eq!(shown(of_other_page).await.0, 403, "{route} of another origin");
        let is_read = route.starts_with("GET ");
        if !is_read {
            let plain = request(&app, &route, "1").header("cookie", &ann.cookie);
            assert_eq!(shown(plain).await.0, 403, "{route} without the page's header");
        }
    }
    let text = ann.says(&app, "1", "/bash cat file").await;
    assert!(text.contains("secret\\n"), "nothing happened to it: {text}");
    assert_eq!(app.people.users().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_chat_is_an_unknown_one() {
    let app = TestApp::start().await;
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let bob = Person::new(&app, "bob", Role::User).await;
    ann.says(&app, "hers", "/bash echo secret >file").await;
    let chat_routes = private().filter(|route| !WITHOUT_CHAT.contains(&route.as_str()));
    let mut seen = 0;
    for route in chat_routes {
        assert!(route.contains("/api/chats/{id}"), "a new route is in none of the lists: {route}");
        seen += 1;
        let unknown = shown(bob.sends(request(&app, &route, "nobodys"))).await;
        let probes = (0..PROBES).map(|_| shown(bob.sends(request(&app, &route, "hers"))));
        for foreign in join_all(probes).await {
            assert_eq!(foreign, unknown, "{route}");
            // Deleting what does not exist succeeds, and does nothing.
            let wanted = if route == "DELETE /api/chats/{id}" { 204 } else { 404 };
            assert_eq!(foreign.0, wanted, "{route}: {}", foreign.2);
        }
    }
    assert_eq!(seen, 18, "routes of a chat");
    // His message goes to a chat of his own, whose id is the same.
    assert!(!bob.says(&app, "hers", "/bash cat file; ls").await.contains("secret"));
    let text = ann.says(&app, "hers", "/bash cat file; ls").await;
    assert!(text.contains("secret\\nfile\\n"), "nothing happened to it: {text}");
    assert_eq!(ann.gets(&app, "/api/chats/hers").await.1["title"], "/bash echo secret >file");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_admins_manage_accounts() {
    let app = TestApp::start().await;
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let bob = Person::new(&app, "bob", Role::User).await;
    for route in private().filter(|route| route.contains("/api/users") || route.contains("/api/invitations"))
    {
        for id in [ann.user.id.as_str(), "usr_0", "inv_0"] {
            let (status, _, body) = shown(bob.sends(request(&app, &route, id))).await;
            assert_eq!((status, body.contains("forbidden")), (403, true), "{route} {id}: {body}");
        }
    }
    assert_eq!(app.people.users().await.unwrap()[1].role, Role::User);
    assert!(app.people.invitations().await.unwrap().is_empty());
    assert_eq!(ann.gets(&app, "/api/users").await.0, 200);
}

//! Signing in, sessions, invitations and roles.

use chat::account::Role;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{PASSWORD, Person, cookie_of, sign_in};
use crate::test_app::{Chunks, TestApp, answer};

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_sign_in_does_not_say_why() {
    let app = TestApp::start().await;
    let (status, error) = answer(sign_in(&app, "ann", PASSWORD)).await;
    assert_eq!((status, error["code"].as_str()), (StatusCode::NOT_FOUND, Some("not_found")));
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let bob = Person::new(&app, "bob", Role::User).await;
    let disable = app.request(Method::PATCH, &format!("/api/users/{}", bob.user.id));
    assert_eq!(answer(ann.sends(disable).json(&json!({ "disabled": true }))).await.0, 200);
    let mut answers = Vec::new();
    for (name, password) in [("bob", PASSWORD), ("ann", "wrong"), ("nobody", PASSWORD), ("not a name", "x")] {
        let response = sign_in(&app, name, password).send().await.unwrap();
        assert!(response.headers().get("set-cookie").is_none());
        let status = response.status();
        answers.push((status, response.text().await.unwrap()));
    }
    assert_eq!(answers[0].0, 401);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    // In any case of the letters, with room for attempts left.
    cookie_of(&sign_in(&app, "Ann", PASSWORD).send().await.unwrap());
    let mut last = StatusCode::OK;
    for _ in 0..12 {
        last = answer(sign_in(&app, "nobody", "guess")).await.0;
    }
    assert_eq!(last, 429, "guesses are limited");
    assert_eq!(ann.gets(&app, "/api/chats").await.0, 200, "a session is not affected");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_ends_the_other_sessions() {
    let app = TestApp::start().await;
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let other = ann.again(&app).await;
    let change = |current: &str, new: &str| {
        let body = json!({ "current": current, "new": new });
        answer(ann.sends(app.request(Method::PUT, "/api/account/password")).json(&body))
    };
    assert_eq!(change("wrong", "another long password").await.0, 403);
    let (status, error) = change(PASSWORD, "short").await;
    assert_eq!(
        (status.as_u16(), error["error"].as_str()),
        (400, Some("`password` must have at least 12 characters"))
    );
    assert_eq!(other.gets(&app, "/api/chats").await.0, 200);
    assert_eq!(change(PASSWORD, "another long password").await.0, 204);
    assert_eq!(other.gets(&app, "/api/chats").await.0, 401);
    assert_eq!(ann.gets(&app, "/api/chats").await.0, 200);
    assert_eq!(sign_in(&app, "ann", PASSWORD).send().await.unwrap().status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_streams() {
    let app = TestApp::start().await;
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let bob = Person::new(&app, "bob", Role::User).await;
    let (_, sessions) = bob.gets(&app, "/api/account/sessions").await;
    let session = sessions["current"].as_str().unwrap();
    assert_eq!(sessions["sessions"][0]["id"], session);
    let foreign = ann.asks(&app, Method::DELETE, &format!("/api/account/sessions/{session}")).await;
    let unknown = ann.asks(&app, Method::DELETE, "/api/account/sessions/ses_0").await;
    assert_eq!((foreign.0, &foreign.1), (StatusCode::NOT_FOUND, &unknown.1));

    for end in [0, 1, 2] {
        let bob = bob.again(&app).await;
        let running = bob.sends(app.say(&format!("s{end}"), "/bash echo begun; sleep 100"));
        let mut reported = Chunks::new(running.send().await.unwrap());
        while reported.next().await.unwrap()["output"]["stdout"] != "begun\n" {}
        let status = match end {
            0 => bob.asks(&app, Method::DELETE, "/api/session").await.0,
            1 => ann.asks(&app, Method::DELETE, &format!("/api/users/{}/sessions", bob.user.id)).await.0,
            _ => {
                let disable = app.request(Method::PATCH, &format!("/api/users/{}", bob.user.id));
                answer(ann.sends(disable).json(&json!({ "disabled": true }))).await.0
            }
        };
        assert!(status.is_success(), "{status}");
        while reported.next().await.is_some() {}
        assert!(!reported.is_done, "the stream was cut");
        assert_eq!(bob.gets(&app, "/api/chats").await.0, 401);
    }
    assert_eq!(ann.gets(&app, "/api/chats").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_makes_one_account() {
    let app = TestApp::start().await;
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let invite = |role: &str| {
        answer(ann.sends(app.request(Method::POST, "/api/invitations")).json(&json!({ "role": role })))
    };
    let accept = |secret: &str, name: &str, password: &str| {
        let body = json!({ "invitation": secret, "name": name, "password": password });
        app.request(Method::POST, "/api/invitations/accept").header("x-chat-request", "1").json(&body)
    };
    assert_eq!(invite("owner").await.0, 400);
    let (_, made) = invite("user").await;
    let secret = made["secret"].as_str().unwrap();
    for (name, password, status) in
        [("bob", "short", 400), ("b b", PASSWORD, 400), ("ann", PASSWORD, 409), ("ANN", PASSWORD, 409)]
    {
        assert_eq!(answer(accept(secret, name, password)).await.0, status, "{name} {password}");
    }
    let (_, listed) = ann.gets(&app, "/api/invitations").await;
    assert_eq!(listed["invitations"][0]["id"], made["id"]);
    assert!(!listed.to_string().contains(secret), "the secret is not shown again");
    // Two at once.
    let both =
        tokio::join!(answer(accept(secret, "bob", PASSWORD)), answer(accept(secret, "bert", PASSWORD)));
    let mut statuses = [both.0.0.as_u16(), both.1.0.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404], "{both:?}");
    assert_eq!(answer(accept(secret, "carl", PASSWORD)).await.0, 404, "it is used up");

    let (_, made) = invite("admin").await;
    let withdraw = format!("/api/invitations/{}", made["id"].as_str().unwrap());
    assert_eq!(ann.asks(&app, Method::DELETE, &withdraw).await.0, 204);
    assert_eq!(ann.asks(&app, Method::DELETE, &withdraw).await.0, 404);
    assert_eq!(answer(accept(made["secret"].as_str().unwrap(), "carl", PASSWORD)).await.0, 404);

    // An invitation ends with the rights of the admin who made it.
    let dora = Person::new(&app, "dora", Role::Admin).await;
    let hers = dora.sends(app.request(Method::POST, "/api/invitations")).json(&json!({ "role": "admin" }));
    let (_, hers) = answer(hers).await;
    let demote = app.request(Method::PATCH, &format!("/api/users/{}", dora.user.id));
    assert_eq!(answer(ann.sends(demote).json(&json!({ "role": "user" }))).await.0, 200);
    assert_eq!(answer(accept(hers["secret"].as_str().unwrap(), "eve", PASSWORD)).await.0, 404);
    assert_eq!(dora.gets(&app, "/api/users").await.0, 403, "at once");
    let (status, _) = ann.gets(&app, "/api/users").await;
    assert_eq!(status, 200);
}

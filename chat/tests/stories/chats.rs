//! Kept chats and temporary chats.

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::test_app::{Chunks, TestApp, answer};

#[tokio::test(flavor = "multi_thread")]
async fn chats_are_kept_listed_renamed_and_deleted_with_their_sandboxes() {
    let app = TestApp::start().await;
    app.send("first", "/bash echo mine >file; cat file").await;
    app.send("second", "/bash ls").await;
    let (_, page) = app.get("/api/chats?limit=1").await;
    assert_eq!(page["chats"][0]["id"], "second");
    let (_, page) = app.get(&format!("/api/chats?cursor={}", page["nextCursor"].as_str().unwrap())).await;
    assert_eq!(
        (&page["chats"][0]["title"], &page["nextCursor"]),
        (&json!("/bash echo mine >file; cat file"), &Value::Null)
    );

    let app = app.again().await;
    let (status, chat) = app.get("/api/chats/first").await;
    assert_eq!(status, 200);
    assert_eq!(chat["messages"][0]["parts"][0]["text"], "/bash echo mine >file; cat file");
    assert_eq!(chat["messages"][1]["parts"][1]["output"]["stdout"], "mine\n");
    assert_eq!(app.output("first", "/bash cat file").await["stdout"], "mine\n", "its files are kept");
    assert_eq!(app.output("second", "/bash ls").await["stdout"], "", "no other chat's files are there");

    let rename =
        |title: &str| app.request(Method::PATCH, "/api/chats/first").json(&json!({ "title": title }));
    assert_eq!(answer(rename("New")).await.1["title"], "New");
    for bad in ["", "  ", "a\nb", &"x".repeat(201)] {
        let (status, error) = answer(rename(bad)).await;
        assert_eq!((status, error["code"].as_str().unwrap()), (StatusCode::BAD_REQUEST, "invalid_request"));
    }
    let sandboxes = || async {
        let all = app.daemon.client.list(&Default::default()).await.unwrap().sandboxes;
        all.into_iter().map(|it| it.session_key).collect::<Vec<_>>()
    };
    assert_eq!(sandboxes().await.len(), 2);
    let delete = || app.request(Method::DELETE, "/api/chats/first").send();
    assert_eq!(delete().await.unwrap().status(), 204);
    assert_eq!(sandboxes().await, ["chat:second"]);
    assert_eq!(app.get("/api/chats/first").await.0, 404);
    assert_eq!(delete().await.unwrap().status(), 204, "the request is idempotent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_deleted_during_an_answer_is_gone() {
    let app = TestApp::start().await;
    let mut reported = Chunks::new(app.say("1", "/bash echo begun; sleep 100").send().await.unwrap());
    while reported.next().await.unwrap()["output"]["stdout"] != "begun\n" {}
    assert_eq!(app.request(Method::DELETE, "/api/chats/1").send().await.unwrap().status(), 204);
    assert_eq!(app.get("/api/chats/1").await.0, 404);
    while reported.next().await.is_some() {}
    assert!(reported.is_done, "its page receives the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_can_be_regenerated_and_a_message_edited() {
    let app = TestApp::start().await;
    for n in 1..=3 {
        app.send("1", &format!("/bash echo {n} >>file; cat file | tr '\\n' ' '")).await;
    }
    let messages = || async { app.get("/api/chats/1").await.1["messages"].as_array().unwrap().clone() };
    let before = messages().await;
    let again = |id: &Value, text: &str, trigger: &str, message_id: Option<&Value>| {
        let message = json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] });
        let body = json!({ "id": "1", "messages": [message], "trigger": trigger, "messageId": message_id });
        app.request(Method::POST, "/api/chat").json(&body)
    };
    // The page's copy of the question is ignored. The app uses its own.
    let regenerate =
        again(&before[4]["id"], "/bash echo forged", "regenerate-message", Some(&before[5]["id"]));
    let text = regenerate.send().await.unwrap().text().await.unwrap();
    assert!(text.contains("1 2 3 3 ") && !text.contains("forged"), "{text}");
    let now = messages().await;
    assert_eq!((now.len(), &now[4]), (6, &before[4]));
    assert_ne!(now[5]["id"], before[5]["id"]);

    let edit = again(&before[2]["id"], "/bash echo edited", "submit-message", Some(&before[2]["id"]));
    assert!(edit.send().await.unwrap().text().await.unwrap().contains("edited\\n"));
    let now = messages().await;
    assert_eq!((now.len(), &now[..2]), (4, &before[..2]));
    assert_eq!(now[2]["parts"][0]["text"], "/bash echo edited");

    let first = again(&before[0]["id"], "x", "regenerate-message", Some(&before[1]["id"]));
    let first = first.send().await.unwrap();
    assert_eq!(first.status(), 200);
    first.text().await.unwrap();
    assert_eq!(messages().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_chat_is_not_stored_and_needs_its_ticket() {
    let app = TestApp::start().await;
    let (_, begun) = answer(app.request(Method::POST, "/api/temporary")).await;
    let (id, ticket) = (begun["id"].as_str().unwrap(), begun["ticket"].as_str().unwrap());
    let say = |ticket: &str| {
        app.say(id, "/bash echo mine >>file; cat file").header("x-chat-ticket", ticket.to_owned())
    };
    for _ in 0..2 {
        let response = say(ticket).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let text = response.text().await.unwrap();
        assert!(text.contains("mine\\n") && text.ends_with("[DONE]\n\n"), "{text}");
    }
    let text = say(ticket).send().await.unwrap().text().await.unwrap();
    assert!(text.contains(r"mine\nmine\nmine\n"), "{text}");
    assert_eq!(app.get("/api/chats").await.1["chats"], json!([]));
    let forged = format!("{ticket}x");
    let (status, error) = answer(say(&forged)).await;
    assert_eq!((status, error["code"].as_str().unwrap()), (StatusCode::NOT_FOUND, "not_found"));
    let files = |ticket: &str| {
        app.request(Method::GET, &format!("/api/chats/{id}/files")).header("x-chat-ticket", ticket.to_owned())
    };
    assert_eq!(answer(files(ticket)).await.1["entries"][0]["name"], "file");
    assert_eq!(answer(files(&forged)).await.0, 404);
    let (status, _) = answer(app.request(Method::GET, &format!("/api/chats/{id}/files"))).await;
    assert_eq!(status, 404, "without the ticket it is another chat, which does not exist");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_reported() {
    let app = TestApp::start().await;
    let post = |body: String| {
        app.request(Method::POST, "/api/chat").header("content-type", "application/json").body(body)
    };
    let message =
        |text: &str| json!({ "id": "m", "role": "user", "parts": [{ "type": "text", "text": text }] });
    let with_id =
        |id: &str| json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": "/bash ls" }] });
    let of = |id: &str, messages: Value| json!({ "id": id, "messages": messages }).to_string();
    let answer_only = json!([{ "id": "a", "role": "assistant", "parts": [] }]);
    for (body, status, code) in [
        ("{".to_owned(), 400, "invalid_request"),
        ("[]".to_owned(), 400, "invalid_request"),
        (of("1", json!([])), 400, "invalid_request"),
        (of("1", answer_only), 400, "invalid_request"),
        (of("1", json!([message(" \n")])), 400, "invalid_request"),
        (of("", json!([message("/bash ls")])), 400, "invalid_request"),
        (of("a/b", json!([message("/bash ls")])), 400, "invalid_request"),
        (of(&"x".repeat(65), json!([message("/bash ls")])), 400, "invalid_request"),
        (of("1", json!([message(&"x".repeat(100_001))])), 413, "too_large"),
        (of("1", json!([message(&"x".repeat(10 << 20))])), 413, "too_large"),
        (of("1", json!([message(&"x".repeat(17 << 20))])), 413, "too_large"),
        (of("1", json!(vec![json!([]); 200_000])), 413, "too_large"),
        (of("1", json!(vec![message("hello"); 10_000])), 422, "no_model"),
        ("[".repeat(100_000), 400, "invalid_request"),
        (of("1", json!([message(&format!("/bash {}", "x".repeat(8001)))])), 413, "too_large"),
        (of("1", json!([with_id(&"m".repeat(129))])), 400, "invalid_request"),
        (of("1", json!([with_id("")])), 400, "invalid_request"),
        (of("1", json!([message("hello")])), 422, "no_model"),
    ] {
        let (got, error) = answer(post(body.clone())).await;
        assert_eq!((got.as_u16(), error["code"].as_str()), (status, Some(code)), "{body:.80}: {error}");
    }
    let (status, _) =
        answer(app.request(Method::POST, "/api/chat").body(of("1", json!([message("/bash ls")])))).await;
    assert_eq!(status, 415, "without its content type");
    assert_eq!(app.get("/api/chats").await.1["chats"], json!([]), "nothing of it is stored");
    for (path, status) in
        [("/api/chats/none", 404), ("/api/none", 404), ("/api/chats?limit=x", 400), ("/api/chat", 405)]
    {
        let (got, error) = app.get(path).await;
        assert_eq!(got.as_u16(), status, "{path}");
        assert!(error["error"].is_string() && error["code"].is_string(), "{path}: {error}");
    }
    let wrong = app.request(Method::GET, "/api/chat").send().await.unwrap();
    assert_eq!(wrong.headers()["allow"], "POST", "RFC 9110 section 15.5.6");
}

/// The next line of a stream of changes.
async fn next_change(changes: &mut Response) -> Value {
    loop {
        let line = changes.chunk().await.unwrap().unwrap();
        if line.trim_ascii().is_empty() {
            continue;
        }
        return serde_json::from_slice(&line).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hear_about_changes() {
    let (app, _model) = crate::turns::with([]).await;
    let mut changes = app.request(Method::GET, "/api/changes").send().await.unwrap();
    assert_eq!(next_change(&mut changes).await, json!({ "chat": null }));
    let mut reported = Chunks::new(app.say("1", "/bash cat").send().await.unwrap());
    assert_eq!(next_change(&mut changes).await, json!({ "chat": "1" }));
    assert_eq!(app.get("/api/chats/1").await.1["running"], true, "the answer can be joined");
    app.stop("1").await;
    while reported.next().await.is_some() {}
    assert_eq!(next_change(&mut changes).await, json!({ "chat": "1" }));
    assert_eq!(app.get("/api/chats/1").await.1["running"], false);

    let change = |change: Value| answer(app.request(Method::PATCH, "/api/chats/1").json(&change));
    let (status, chat) = change(json!({ "model": "openai/0" })).await;
    assert_eq!(
        (status, &chat["model"], &chat["title"]),
        (StatusCode::OK, &json!("openai/0"), &json!("/bash cat"))
    );
    assert_eq!(next_change(&mut changes).await, json!({ "chat": "1" }));
    let (status, error) = change(json!({ "model": "openai/9" })).await;
    assert_eq!((status, error["code"].as_str()), (StatusCode::BAD_REQUEST, Some("invalid_request")));

    // A temporary chat has no changes, so the next line is about the deletion.
    let (_, temporary) = answer(app.request(Method::POST, "/api/temporary")).await;
    let ticket = temporary["ticket"].as_str().unwrap();
    let said = app.say(temporary["id"].as_str().unwrap(), "/bash true").header("x-chat-ticket", ticket);
    said.send().await.unwrap().text().await.unwrap();
    assert_eq!(app.request(Method::DELETE, "/api/chats/1").send().await.unwrap().status(), 204);
    assert_eq!(next_change(&mut changes).await, json!({ "chat": "1" }));
    // A server that stops ends the stream. One that is cut would be an error.
    let _app = app.again().await;
    assert!(changes.chunk().await.unwrap().is_none());
}

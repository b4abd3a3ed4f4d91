//! Files and sandbox of a chat, for its user.

use reqwest::Method;
use sandbox_api::sandbox::ListSandboxes;
use serde_json::json;

use crate::test_app::{TestApp, answer};

#[tokio::test(flavor = "multi_thread")]
async fn files_are_uploaded_downloaded_and_removed() {
    let app = TestApp::start().await;
    app.send("1", "/bash true").await;
    assert_eq!(app.request(Method::DELETE, "/api/chats/1/sandbox").send().await.unwrap().status(), 204);
    assert_eq!(
        app.get("/api/chats/1/files").await.1,
        json!({ "path": "", "entries": [], "nextCursor": null, "sandbox": false })
    );
    let at = |path: &str| format!("/api/chats/1/files/content?path={path}");
    let content = vec![b'x'; 3_000_000];
    let (status, written) =
        answer(app.request(Method::PUT, &at("d/%C3%A4%20b.html")).body(content.clone())).await;
    assert_eq!((status.as_u16(), written), (200, json!({ "path": "d/ä b.html", "size": 3_000_000 })));
    let (_, list) = app.get("/api/chats/1/files?path=d").await;
    assert_eq!(list["entries"][0]["path"], "d/ä b.html");
    assert_eq!(
        (&list["entries"][0]["type"], &list["entries"][0]["size"]),
        (&json!("file"), &json!(3_000_000))
    );

    let response = app.request(Method::GET, &at("d/%C3%A4%20b.html")).send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "application/octet-stream");
    assert!(header("content-disposition").starts_with("attachment;"));
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert!(header("content-security-policy").contains("sandbox"));
    assert_eq!(header("content-length"), "3000000");
    assert_eq!(response.bytes().await.unwrap(), content);

    for path in ["..%2Fx", "%2Fetc%2Fpasswd", "d%2F..%2F..%2Fx"] {
        let status = app.request(Method::PUT, &at(path)).body("x").send().await.unwrap().status();
        assert!(status.is_client_error(), "{path}: {status}");
    }
    assert_eq!(app.request(Method::GET, &at("none")).send().await.unwrap().status(), 404);
    assert_eq!(app.request(Method::GET, &at("")).send().await.unwrap().status(), 400);
    let delete = || app.request(Method::DELETE, "/api/chats/1/files?path=d").send();
    assert_eq!(delete().await.unwrap().status(), 204);
    assert_eq!(delete().await.unwrap().status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_shown_parked_and_deleted() {
    let app = TestApp::start().await;
    app.send("1", "/bash echo kept >file").await;
    let (_, seen) = app.get("/api/chats/1/sandbox").await;
    assert_eq!(
        (&seen["state"], &seen["provider"], &seen["limits"]["cpus"]),
        (&json!("running"), &json!("docker"), &json!(2))
    );
    assert!(seen["sandboxId"].as_str().unwrap().starts_with("sbx_"));
    assert_eq!(seen["limits"]["memoryBytes"], 512 << 20);
    assert!(seen["usage"]["memoryBytes"].as_u64().unwrap() > 0, "{seen}");
    assert_eq!(seen["posture"]["readonlyRootfs"], true);
    assert_eq!(seen["network"], json!({ "mode": "none", "allow": [] }));
    app.send("1", "/bash curl -sm 5 https://example.com").await;
    let (_, network) = app.get("/api/chats/1/network").await;
    assert_eq!(
        (&network["mode"], &network["denials"][0]["host"]),
        (&json!("none"), &json!("example.com")),
        "{network}"
    );
    let (status, parked) = answer(app.request(Method::POST, "/api/chats/1/sandbox/park")).await;
    assert_eq!((status.as_u16(), &parked["state"]), (200, &json!("parked")), "{parked}");
    assert_eq!(app.output("1", "/bash cat file").await["stdout"], "kept\n");
    assert_eq!(app.request(Method::DELETE, "/api/chats/1/sandbox").send().await.unwrap().status(), 204);
    assert_eq!(app.get("/api/chats/1/sandbox").await.1["state"], "none");
    assert_eq!(app.get("/api/chats/1").await.0, 200, "the chat itself is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_chat_is_not_found_and_gets_no_sandbox() {
    let app = TestApp::start().await;
    let requests = [
        ("GET", "sandbox"),
        ("DELETE", "sandbox"),
        ("POST", "sandbox/park"),
        ("GET", "network"),
        ("POST", "network/allow"),
        ("GET", "files"),
        ("DELETE", "files?path=a"),
        ("GET", "files/content?path=a"),
        ("PUT", "files/content?path=a"),
    ];
    for (method, what) in requests {
        let request = app.request(method.parse().unwrap(), &format!("/api/chats/unknown/{what}"));
        let request = match what {
            "network/allow" => request.json(&json!({ "host": "example.com" })),
            _ if method == "PUT" => request.body("x"),
            _ => request,
        };
        let (status, error) = answer(request).await;
        assert_eq!((status.as_u16(), &error["code"]), (404, &json!("not_found")), "{method} {what}: {error}");
        assert_eq!(error["error"], "there is no such chat", "{method} {what}");
    }
    let made = app.daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert!(made.is_empty(), "{made:?}");
    assert_eq!(app.get("/api/chats").await.1["chats"], json!([]));
}

//! The open-terminal API over HTTP.

use serde_json::{Value, json};

use crate::support::harness::{Daemon, TOKEN};
use crate::support::http::{Answer, HttpClient};

/// A chat of a user, as Open WebUI calls for it.
pub(super) struct Chat {
    http: HttpClient,
    headers: Vec<(&'static str, String)>,
}

impl Chat {
    pub(super) fn of(daemon: &Daemon, user: &str, chat: &str) -> Self {
        Self::with(daemon, &[("x-user-id", user), ("x-session-id", chat)])
    }

    fn with(daemon: &Daemon, headers: &[(&'static str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { http: HttpClient::of(daemon), headers }
    }

    pub(super) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.without_token(method, &format!("/open-terminal{path}"));
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        self.headers.iter().fold(request, |request, (name, value)| request.header(*name, value))
    }

    pub(super) async fn send(&self, method: &str, path: &str) -> Answer {
        Answer::to(self.request(method, path)).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::to(self.request("POST", path).json(body)).await
    }

    /// The JSON of a successful `GET`.
    pub(super) async fn get(&self, path: &str) -> Value {
        ok(self.send("GET", path).await, path)
    }

    pub(super) async fn posted(&self, path: &str, body: Value) -> Value {
        ok(self.post(path, &body).await, path)
    }

    /// Runs a command to its end, and returns its output.
    pub(super) async fn output(&self, command: &str) -> String {
        let ran = self.posted("/execute?wait=60", json!({ "command": command })).await;
        assert_eq!(ran["status"], "done", "{command}: {ran}");
        text_of(&ran)
    }

    async fn failure(&self, method: &str, path: &str, body: Value) -> (u16, String) {
        let answer = Answer::to(self.request(method, path).json(&body)).await;
        (answer.status, answer.json()["detail"].as_str().unwrap_or_default().to_owned())
    }
}

#[track_caller]
pub(super) fn ok(answer: Answer, path: &str) -> Value {
    assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

fn text_of(process: &Value) -> String {
    process["output"].as_array().unwrap().iter().map(|entry| entry["data"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_has_commands_and_files() {
    let daemon = Daemon::start().await;
    let chat = Chat::of(&daemon, "ann", "chat-1");
    let document = chat.get("/openapi.json").await;
    assert_eq!(document["paths"]["/execute"]["post"]["operationId"], "run_command");
    assert_eq!(chat.get("/api/config").await["features"]["terminal"], true);
    assert!(chat.get("/system").await["prompt"].as_str().unwrap().contains("/vercel/sandbox/workspace"));
    // What Open WebUI reads for every message opens no sandbox.
    let cwd = chat.get("/files/cwd").await;
    assert_eq!((&cwd["cwd"], &cwd["root"]["path"]), (&cwd["home"], &cwd["home"]));
    assert_eq!(chat.get("/ports").await, json!({ "ports": [] }));
    assert_eq!(chat.get("/execute").await, json!([]));
    assert_eq!(
        chat.failure("GET", "/files/read?path=AGENTS.md", Value::Null).await,
        (404, "File not found".into())
    );
    assert_eq!(daemon.client.list(&Default::default()).await.unwrap().sandboxes.len(), 0);

    let written =
        chat.posted("/files/write", json!({ "path": "src/a.txt", "content": "one\ntwo\nthree" })).await;
    assert_eq!(written, json!({ "path": "/vercel/sandbox/workspace/src/a.txt", "size": 13 }));
    assert_eq!(chat.output("cat src/a.txt").await, "one\ntwo\nthree");
    let read = chat.get("/files/read?path=src/a.txt&start_line=2&end_line=2").await;
    assert_eq!((&read["content"], &read["total_lines"]), (&"two\n".into(), &3.into()));
    let listed = chat.get("/files/list?directory=src").await;
    assert_eq!(
        (&listed["entries"][0]["name"], &listed["entries"][0]["type"]),
        (&"a.txt".into(), &"file".into())
    );
    assert!(listed["entries"][0]["modified"].as_f64().unwrap() > 1e9 && listed["writable"] == true);
    let edit = json!({ "path": "src/a.txt", "replacements": [{ "target": "t", "replacement": "T", "start_line": 3 }] });
    assert_eq!(chat.posted("/files/replace", edit).await["size"], 13);
    assert_eq!(chat.output("cat src/a.txt").await, "one\ntwo\nThree");
    assert_eq!(chat.get("/files/display?path=src/a.txt").await["exists"], true);
    assert_eq!(chat.get("/files/display?path=src").await["exists"], false);

    let found = chat.get("/files/grep?query=T.ree&path=.&include=*.txt").await;
    assert_eq!(found["matches"], json!([{ "file": written["path"], "line": 3, "content": "Three" }]));
    let files = chat.get("/files/grep?query=o&match_per_line=false").await;
    assert_eq!(files["matches"], json!([{ "file": written["path"] }]));
    let globbed = chat.get("/files/glob?pattern=*.txt&type=file").await;
    assert_eq!((&globbed["matches"][0]["path"], &globbed["truncated"]), (&"src/a.txt".into(), &false.into()));

    // Relative paths begin in the directory that the user has opened.
    assert_eq!(
        chat.posted("/files/cwd", json!({ "path": "src" })).await["cwd"],
        "/vercel/sandbox/workspace/src"
    );
    assert_eq!(chat.output("pwd").await, "/vercel/sandbox/workspace/src\n");
    assert_eq!(chat.get("/files/read?path=a.txt").await["path"], written["path"]);
    assert_eq!(chat.failure("POST", "/files/cwd", json!({ "path": "a.txt" })).await.0, 404);

    let made = chat.posted("/files/mkdir", json!({ "path": "/vercel/sandbox/workspace/d/e" })).await;
    let moved =
        json!({ "source": "a.txt", "destination": format!("{}/b: c.html", made["path"].as_str().unwrap()) });
    chat.posted("/files/move", moved).await;
    let view = chat.send("GET", "/files/view?path=~/d/e/b:%20c.html").await;
    let served = chat.send("GET", "/files/serve/vercel/sandbox/workspace/d/e/b:%20c.html").await;
    for page in [view, served] {
        assert_eq!((page.status, page.body.as_slice()), (200, b"one\ntwo\nThree".as_slice()));
        assert_eq!(page.header("content-type"), "text/html");
        assert_eq!(page.header("content-security-policy"), "sandbox allow-scripts");
    }
    let deleted = ok(chat.send("DELETE", "/files/delete?path=~/d").await, "delete");
    assert_eq!(deleted["type"], "directory");
    assert_eq!(chat.output("ls -A ~").await, "src\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_in_the_background() {
    let daemon = Daemon::start().await;
    let chat = Chat::of(&daemon, "ann", "chat-1");
    let started = chat
        .posted(
            "/execute",
            json!({ "command": "read -r line; echo got $line; read -r line", "env": { "A": "b" } }),
        )
        .await;
    assert_eq!((&started["status"], &started["exit_code"]), (&"running".into(), &Value::Null));
    let id = started["id"].as_str().unwrap();
    chat.posted(&format!("/execute/{id}/input"), json!({ "input": "it\\n" })).await;
    let mut status = started.clone();
    while text_of(&status).is_empty() {
        status = chat.get(&format!("/execute/{id}/status?wait=0.2")).await;
    }
    assert_eq!((text_of(&status).as_str(), &status["status"]), ("got it\n", &"running".into()));
    let later = chat.get(&format!("/execute/{id}/status?offset={}", status["next_offset"])).await;
    assert_eq!((text_of(&later), &later["next_offset"]), (String::new(), &status["next_offset"]));
    let listed = chat.get("/execute").await;
    assert_eq!((&listed[0]["id"], &listed[0]["command"]), (&started["id"], &started["command"]));
    // The end of its input ends it.
    chat.posted(&format!("/execute/{id}/input"), json!({ "input": "\\x04" })).await;
    let ended = chat.get(&format!("/execute/{id}/status?wait=30")).await;
    assert_eq!((&ended["status"], &ended["exit_code"]), (&"done".into(), &1.into()));
    let late = chat.failure("POST", &format!("/execute/{id}/input"), json!({ "input": "x" })).await;
    assert_eq!(late.0, 400, "{late:?}");

    let stubborn = chat
        .posted("/execute", json!({ "command": "trap '' TERM; echo up; while :; do read -rt 9; done" }))
        .await;
    let id = stubborn["id"].as_str().unwrap();
    let mut status = stubborn.clone();
    while text_of(&status).is_empty() {
        status = chat.get(&format!("/execute/{id}/status?wait=0.2")).await;
    }
    let killed = ok(chat.send("DELETE", &format!("/execute/{id}?force=true")).await, "kill");
    assert_eq!(killed["status"], "killed");
    assert_eq!(chat.get(&format!("/execute/{id}/status")).await["status"], "killed");
    let sleeper = chat.posted("/execute", json!({ "command": "exec sleep 60" })).await;
    let killed =
        ok(chat.send("DELETE", &format!("/execute/{}", sleeper["id"].as_str().unwrap())).await, "kill");
    assert_eq!(killed["status"], "killed");

    // A long output is cut, and the whole is in a file that can be read.
    let long = chat.posted("/execute?wait=60", json!({ "command": "seq 100000" })).await;
    assert_eq!(long["truncated"], true);
    assert!(text_of(&long).len() <= 128 * 1024 && text_of(&long).ends_with("99999\n100000\n"));
    let log = long["log_path"].as_str().unwrap();
    let lines = chat.get(&format!("/files/read?path={log}&start_line=77&end_line=78")).await;
    assert_eq!((&lines["content"], &lines["total_lines"]), (&"77\n78\n".into(), &100_000.into()));
    let tail =
        chat.posted("/execute?wait=60&tail=1", json!({ "command": "echo a; read -t 0.2; echo b" })).await;
    assert_eq!((text_of(&tail).as_str(), &tail["truncated"]), ("b\n", &true.into()));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_chats_never_share_a_sandbox() {
    let daemon = Daemon::start().await;
    let chat = Chat::of(&daemon, "ann", "1");
    chat.output("echo secret >mine").await;
    let running = chat.posted("/execute", json!({ "command": "read -r line" })).await;
    let (id, terminal) = (running["id"].as_str().unwrap(), chat.posted("/api/terminals", json!({})).await);
    for stranger in [
        Chat::of(&daemon, "bob", "1"),
        Chat::of(&daemon, "ann", "2"),
        Chat::with(&daemon, &[("x-session-id", "1")]),
        Chat::with(&daemon, &[("x-user-id", "ann:host"), ("x-session-id", "1")]),
        Chat::with(
            &daemon,
            &[("x-user-id", "ann"), ("x-session-id", "1"), ("x-terminal-context-id", "automation:1")],
        ),
    ] {
        assert_eq!(stranger.output("ls").await, "");
        assert_eq!(stranger.send("GET", "/files/read?path=mine").await.status, 404);
        for (method, path) in [("GET", format!("/execute/{id}/status")), ("DELETE", format!("/execute/{id}"))]
        {
            assert_eq!(stranger.send(method, &path).await.status, 404, "{method} {path}");
        }
        assert_eq!(stranger.get("/api/terminals").await, json!([]));
    }
    let id = terminal["id"].as_str().unwrap();
    let bob = Chat::of(&daemon, "bob", "1");
    for method in ["GET", "DELETE"] {
        assert_eq!(bob.send(method, &format!("/api/terminals/{id}")).await.status, 404, "{method}");
    }
    // The same chat by the other header, and with the tools over plain HTTP.
    let same = Chat::with(&daemon, &[("x-user-id", "ann"), ("x-terminal-context-id", "chat:1")]);
    assert_eq!(same.output("cat mine").await, "secret\n");
    let tools =
        HttpClient::of(&daemon).with_token("POST", "/tools/bash").header("x-openwebui-user-id", "ann");
    let ran =
        Answer::to(tools.header("x-openwebui-chat-id", "1").json(&json!({ "command": "cat mine" }))).await;
    assert_eq!(ran.json()["stdout"], "secret\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_cannot_work_is_explained() {
    let daemon = Daemon::start().await;
    let chat = Chat::of(&daemon, "ann", "1");
    chat.output(
        "ln -s /etc outside; mkfifo fifo; printf 'a\\0b' >binary; echo x >text; mkdir dir; truncate -s 17M large.png",
    )
    .await;
    for (method, path, body, status, detail) in [
        ("GET", "/files/read?path=/etc/passwd", json!(null), 403, "outside"),
        ("GET", "/files/read?path=../../../etc/passwd", json!(null), 403, "outside"),
        ("GET", "/files/read?path=outside/passwd", json!(null), 400, ""),
        ("GET", "/files/read?path=fifo", json!(null), 400, ""),
        ("GET", "/files/read?path=dir", json!(null), 400, ""),
        ("GET", "/files/read?path=binary", json!(null), 415, "Unsupported binary file type"),
        ("GET", "/files/read?path=large.png", json!(null), 413, "the image has more than"),
        ("GET", "/files/read?path=a%00b", json!(null), 400, "NUL"),
        ("GET", "/files/read", json!(null), 422, "`path` is required"),
        ("GET", "/files/read?path=none", json!(null), 404, "File not found"),
        ("GET", "/files/list?directory=text", json!(null), 404, "Directory not found"),
        ("GET", "/files/grep?query=(", json!(null), 400, ""),
        ("GET", "/files/grep?query=a&max_results=0", json!(null), 422, "`max_results` must be"),
        ("GET", "/files/glob?pattern=*&type=socket", json!(null), 422, "`type`"),
        ("GET", "/execute/cmd_0123456789abcdef/status", json!(null), 404, "Process not found"),
        ("GET", "/execute/..%2f..%2fx/status", json!(null), 404, "Process not found"),
        ("POST", "/execute?wait=1e9", json!({ "command": "true" }), 422, "`wait`"),
        ("POST", "/execute", json!({}), 422, "command"),
        ("POST", "/execute", json!([]), 422, ""),
        ("POST", "/execute", json!({ "command": "true", "cwd": "/nowhere" }), 400, ""),
        ("POST", "/files/write", json!({ "path": "/etc/x", "content": "" }), 403, "outside"),
        ("POST", "/files/write", json!({ "path": "outside/x", "content": "" }), 400, ""),
        ("POST", "/files/write", json!({ "path": "dir", "content": "" }), 400, ""),
        ("POST", "/files/mkdir", json!({ "path": "text" }), 409, ""),
        ("POST", "/files/move", json!({ "source": "text", "destination": "dir" }), 409, "already exists"),
        ("POST", "/files/move", json!({ "source": "none", "destination": "x" }), 404, "Source"),
        (
            "POST",
            "/files/replace",
            json!({ "path": "text", "replacements": [{ "target": "y", "replacement": "" }] }),
            400,
            "not found",
        ),
        ("POST", "/files/cwd", json!({ "path": "outside" }), 404, "Directory not found"),
        ("DELETE", "/files/delete?path=~", json!(null), 400, "workspace"),
        ("DELETE", "/files/delete?path=none", json!(null), 404, "Path not found"),
        ("GET", "/notebooks", json!(null), 404, "openapi.json"),
        ("PUT", "/execute", json!(null), 405, "method"),
        ("GET", "/api/terminals/x", json!(null), 404, "Session not found"),
    ] {
        let failure = chat.failure(method, path, body).await;
        assert!(
            failure.0 == status && failure.1.contains(detail) && !failure.1.is_empty(),
            "{method} {path}: {failure:?}"
        );
    }
    for headers in
        [&[][..], &[("x-user-id", "ann")], &[("x-session-id", "")], &[("x-session-id", "{{chat}}")]]
    {
        let nobody = Chat::with(&daemon, headers);
        for (method, path) in
            [("POST", "/execute"), ("GET", "/files/cwd"), ("GET", "/files/list"), ("POST", "/api/terminals")]
        {
            let failure = nobody.failure(method, path, json!({ "command": "true" })).await;
            assert!(
                failure.0 == 400 && failure.1.to_ascii_lowercase().contains("x-session-id"),
                "{headers:?}: {failure:?}"
            );
        }
        // These describe the server, not a chat.
        nobody.get("/openapi.json").await;
        nobody.get("/api/config").await;
    }
    let http = HttpClient::of(&daemon);
    for token in [None, Some("Bearer wrong")] {
        let request =
            http.without_token("POST", "/open-terminal/execute").json(&json!({ "command": "true" }));
        let request =
            token.into_iter().fold(request, |request, token| request.header("authorization", token));
        let refused = Answer::to(request).await;
        assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Bearer"));
        assert!(refused.json()["detail"].as_str().unwrap().contains("token"), "{:?}", refused.json());
    }
    assert_eq!(Answer::to(http.without_token("GET", "/open-terminal/health")).await.json()["status"], "ok");
    let foreign = http.with_token("GET", "/open-terminal/files/cwd").header("origin", "https://evil.example");
    assert_eq!(Answer::to(foreign).await.status, 403);
    daemon.stop().await;
}

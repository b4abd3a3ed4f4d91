//! Changes of resources.

use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::mcp_client::Mcp;
use crate::support::harness::{Daemon, SOON};

/// Messages of an event stream, as they arrive.
struct Stream {
    response: Response,
    text: String,
}

impl Stream {
    fn of(response: Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    async fn next(&mut self) -> Value {
        let read = async {
            loop {
                while let Some((line, rest)) = self.text.split_once('\n') {
                    let message = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data).ok());
                    self.text = rest.to_owned();
                    if let Some(message) = message {
                        return message;
                    }
                }
                let bytes = self.response.chunk().await.unwrap().expect("the stream has ended");
                self.text.push_str(std::str::from_utf8(&bytes).unwrap());
            }
        };
        timeout(SOON, read).await.expect("no message arrives")
    }

    async fn update(&mut self) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], "notifications/resources/updated", "{message}");
        message["params"].clone()
    }
}

async fn handle_of(client: &Mcp) -> String {
    client.result("sandbox_open", json!({})).await["sandbox"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gets_changes_until_it_unsubscribes() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("resources").legacy().await;
    let handle = handle_of(&client).await;
    let uri = |name: &str| json!({ "uri": format!("sandbox://{handle}/{name}") });
    let mut stream = Stream::of(client.listen().await);
    for name in ["notes.txt", "other.txt"] {
        let subscribed = client.ask("resources/subscribe", uri(name)).await;
        assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    }
    // A file that is created, replaced by another one, changed and deleted.
    for command in
        ["echo 1 >notes.txt", "echo 2 >new; mv new notes.txt", "echo 3 >>notes.txt", "rm notes.txt"]
    {
        client.output(command).await;
        assert_eq!(stream.update().await, uri("notes.txt"), "{command}");
    }
    let ended = client.ask("resources/unsubscribe", uri("notes.txt")).await;
    assert_eq!(ended["result"], json!({}), "{ended}");
    client.output("echo 4 >notes.txt; echo 4 >other.txt").await;
    assert_eq!(stream.update().await, uri("other.txt"));
    // A parked sandbox stays parked. When a call wakes it, the file may have changed.
    let sandbox = handle.parse().unwrap();
    daemon.client.park(&sandbox, false).await.unwrap();
    client.output("true").await;
    assert_eq!(stream.update().await, uri("other.txt"));
    client.output("echo 5 >other.txt").await;
    assert_eq!(stream.update().await, uri("other.txt"));
    daemon.client.delete(&sandbox).await.unwrap();
    assert_eq!(stream.update().await, uri("other.txt"));

    for unknown in ["sandbox://sbx_0123456789abcdef/a", "file:///etc/passwd"] {
        let refused = client.ask("resources/subscribe", json!({ "uri": unknown })).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_listens_for_changes_until_it_ends() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("resources");
    let handle = handle_of(&client).await;
    client.output("mkdir src").await;
    let uri = format!("sandbox://{handle}/src/a%20b.txt");
    let filter = json!({ "resourceSubscriptions": [uri, "test://other"], "toolsListChanged": true });
    let listen = client.request("subscriptions/listen", json!({ "notifications": filter }));
    let mut stream = Stream::of(listen.send().await.unwrap());
    let first = stream.next().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    // Only what can be reported is accepted.
    assert_eq!(first["params"]["notifications"], json!({ "resourceSubscriptions": [uri] }));
    let id = first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert!(id.is_number(), "{first}");
    // Nothing is missed after the acknowledgment: a client that reads at every update gets what was written last.
    for content in ["one", "two"] {
        client.result("write", json!({ "path": "src/a b.txt", "content": content })).await;
        loop {
            let update = stream.update().await;
            assert_eq!(
                (&update["uri"], &update["_meta"]["io.modelcontextprotocol/subscriptionId"]),
                (&json!(uri), &id)
            );
            let read = client.ask("resources/read", json!({ "uri": uri })).await;
            assert_eq!(read["error"], Value::Null, "{read}");
            if read["result"]["contents"][0]["text"] == content {
                break;
            }
        }
    }
    // A sandbox of another client cannot be watched.
    let stranger = Mcp::of(&daemon).with("x-sandbox-user", "eve");
    let filter = json!({ "resourceSubscriptions": [uri] });
    let refused = stranger.ask("subscriptions/listen", json!({ "notifications": filter })).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    // The end of the sandbox is the end of the request.
    daemon.client.delete(&handle.parse().unwrap()).await.unwrap();
    assert_eq!(stream.update().await["uri"], json!(uri));
    assert_eq!(stream.next().await["result"]["resultType"], "complete");
    // A shutdown does not wait for listening clients.
    let other = handle_of(&client).await;
    let filter = json!({ "resourceSubscriptions": [format!("sandbox://{other}/a")] });
    let listen = client.request("subscriptions/listen", json!({ "notifications": filter }));
    let mut stream = Stream::of(listen.send().await.unwrap());
    stream.next().await;
    let stop = timeout(std::time::Duration::from_secs(10), daemon.stop());
    stop.await.expect("the daemon waits for a client that listens");
}

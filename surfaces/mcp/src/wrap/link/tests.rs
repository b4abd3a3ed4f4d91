//! Tests of the link to a server, without one.

use super::*;
use crate::wrap::listener::Silent;

/// The next message for the server.
async fn next(messages: &mut mpsc::Receiver<Outgoing>) -> Value {
    serde_json::from_slice(&messages.recv().await.unwrap().line).unwrap()
}

fn send(link: &Link, message: &Value) {
    link.receive(message.to_string().as_bytes()).unwrap();
}

#[tokio::test]
async fn answers_find_their_requests() {
    let (link, mut messages) = Link::new(Allowed::default());
    let ask = |number: u64| {
        let link = Arc::clone(&link);
        tokio::spawn(async move { link.request("x", json!({ "number": number }), &Silent).await })
    };
    let (first, second) = (ask(1), ask(2));
    for _ in 0..2 {
        let request = next(&mut messages).await;
        send(&link, &json!({ "id": 99, "result": "not asked for" }));
        send(&link, &json!({ "id": request["id"], "result": request["params"]["number"] }));
    }
    assert_eq!((first.await.unwrap().unwrap(), second.await.unwrap().unwrap()), (json!(1), json!(2)));
    assert!(link.is_idle());
}

#[tokio::test]
async fn a_request_without_a_caller_is_cancelled() {
    let (link, mut messages) = Link::new(Allowed::default());
    let caller = Arc::clone(&link);
    let call = tokio::spawn(async move { caller.request("x", json!({}), &Silent).await });
    let id = next(&mut messages).await["id"].clone();
    call.abort();
    let cancelled = next(&mut messages).await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &id)
    );
    assert!(link.is_idle());
}

#[tokio::test]
async fn requests_of_the_server_are_refused_by_default() {
    let (link, mut messages) = Link::new(Allowed::default());
    for method in ["elicitation/create", "sampling/createMessage", "roots/list", "other"] {
        send(&link, &json!({ "id": "a", "method": method, "params": {} }));
        let answer = next(&mut messages).await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!("a"), &json!(METHOD_NOT_FOUND)),
            "{method}"
        );
    }
    send(&link, &json!({ "id": 1, "method": "ping" }));
    assert_eq!(next(&mut messages).await["result"], json!({}));
}

#[tokio::test]
async fn a_server_that_only_talks_is_ended() {
    let (link, _messages) = Link::new(Allowed::default());
    let flood = json!({ "method": "notifications/message", "params": {} }).to_string();
    for _ in 0..MAX_UNASKED {
        link.receive(flood.as_bytes()).unwrap();
    }
    assert!(link.receive(b"garbage").is_err());
}

#[tokio::test]
async fn what_a_server_makes_others_keep_is_small() {
    let (link, mut messages) = Link::new(Allowed { elicitation: true, sampling: true });
    let many = json!({ "id": 1, "result": vec![json!({}); MAX_VALUES] }).to_string();
    assert!(link.receive(many.as_bytes()).unwrap_err().contains("more than 20000 values"));
    let long = "x".repeat(MAX_ASK_BYTES);
    for id in [json!(long), json!({}), json!([1])] {
        send(&link, &json!({ "id": id, "method": "ping" }));
    }
    send(&link, &json!({ "id": 1, "method": "elicitation/create", "params": { "message": long } }));
    assert_eq!(next(&mut messages).await["error"]["code"], INVALID_PARAMS, "no other is answered");
    let progress = progress_of(&json!({ "progress": 1, "message": long, "other": long }));
    assert!(progress["progress"] == 1 && progress.to_string().len() < 2 * MAX_PROGRESS_CHARS);
}

/// Never answers.
struct Waiting;

impl Listener for Waiting {
    fn wants_progress(&self) -> bool {
        true
    }

    fn progress(&self, _: Value) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn ask(&self, _: String, _: Value) -> futures::future::BoxFuture<'_, Option<Value>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn an_answer_does_not_wait_for_a_question() {
    let (link, mut messages) = Link::new(Allowed { elicitation: true, sampling: false });
    let caller = Arc::clone(&link);
    let call = tokio::spawn(async move { caller.request("x", json!({}), &Waiting).await });
    let id = next(&mut messages).await["id"].clone();
    send(&link, &json!({ "id": "q", "method": "elicitation/create", "params": {} }));
    send(&link, &json!({ "id": id, "result": "early" }));
    assert_eq!(call.await.unwrap().unwrap(), "early");
}

#[tokio::test]
async fn a_server_that_cannot_get_requests_is_replaced() {
    let (link, _messages) = Link::new(Allowed::default());
    assert!(!link.is_closing());
    link.close_input();
    assert!(link.is_closing() && link.ended().is_none());
    assert!(matches!(link.request("x", json!({}), &Silent).await, Err(LinkError::NotSent)));
    link.end(How::Failed("exit code 1".into()), String::new());
    link.done().await;
}

#[tokio::test]
async fn an_ended_server_gets_no_request() {
    let (link, _messages) = Link::new(Allowed::default());
    assert!(link.end_if_idle(Duration::ZERO));
    assert!(matches!(link.request("x", json!({}), &Silent).await, Err(LinkError::NotSent)));
}

#[tokio::test]
async fn a_request_that_was_not_delivered_can_be_sent_again() {
    let (link, mut messages) = Link::new(Allowed::default());
    let caller = Arc::clone(&link);
    let call = tokio::spawn(async move { caller.request("x", json!({}), &Silent).await });
    let id = messages.recv().await.unwrap().request.unwrap();
    link.close(How::Parked);
    link.end_undelivered(&[id]);
    assert!(matches!(call.await.unwrap(), Err(LinkError::NotSent)));
    assert_eq!(link.ended().unwrap().how, How::Parked);
}

#[tokio::test]
async fn requests_end_with_the_server() {
    let (link, mut messages) = Link::new(Allowed::default());
    let caller = Arc::clone(&link);
    let call = tokio::spawn(async move { caller.request("x", json!({}), &Silent).await });
    next(&mut messages).await;
    assert!(!link.end_if_idle(Duration::ZERO), "a request waits");
    link.end(How::Failed("exit code 1".into()), "boom".into());
    let Err(LinkError::Ended(ended)) = call.await.unwrap() else { panic!() };
    assert_eq!((ended.how, ended.stderr.as_str()), (How::Failed("exit code 1".into()), "boom"));
}

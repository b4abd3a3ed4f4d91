//! Servers that return errors, close the connection, fall silent or send garbage.

use chat::model::{Anthropic, Error, ModelClient, OpenAi, Piece};
use futures::StreamExt;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use url::Url;

use crate::received::{SILENCE_LIMIT, anthropic, both_at, fault, openai, question, send};
use crate::scripted_model::{Reply, ScriptedModel, Step};

/// Plays a response to each client, and checks the result.
async fn meet(reply: Reply, check: impl Fn(&str, &Error)) {
    let server = ScriptedModel::start([reply.clone(), reply]).await;
    for (name, client) in both_at(&server.base) {
        check(name, &fault(&*client).await);
    }
    assert_eq!(server.requests().len(), 2, "no request is repeated");
}

#[tokio::test]
async fn an_error_in_the_stream_ends_the_response() {
    let received = openai(Reply::stream(include_str!("fixtures/openai_error.sse"))).await;
    let wanted = "error the model's server reports an error: The server had an error while processing [key]";
    assert_eq!(received.lines(), ["text So far", wanted]);
    let received = anthropic(Reply::stream(include_str!("fixtures/anthropic_overloaded.sse"))).await;
    assert_eq!(
        received.lines(),
        ["text So far", "error the model's server reports an error: Overloaded: [key]"]
    );
}

#[tokio::test]
async fn an_error_is_recognised_in_every_format() {
    let odd = [
        "data: {\"error\":\"no memory\"}\n\n",
        "data: {\"object\":\"error\",\"message\":\"no memory\",\"code\":500}\n\n",
        "event: error\ndata: {\"message\":\"no memory\"}\n\n",
        "data: {\"error\":{\"code\":502,\"message\":\"no memory\"},\"choices\":[{\"delta\":{}}]}\n\n",
    ];
    for events in odd {
        let error = openai(Reply::stream(events)).await.error.unwrap();
        assert!(
            matches!(&error, Error::Reported { message } if message == "no memory"),
            "{events}: {error:?}"
        );
    }
    meet(Reply::json(200, &json!({"type": "error", "error": {"message": "no memory"}})), |name, error| {
        assert!(matches!(error, Error::Reported { message } if message == "no memory"), "{name}: {error:?}");
    })
    .await;
}

#[tokio::test]
async fn an_interrupted_response_makes_no_calls() {
    let wanted = "error the model's answer ended before it was complete";
    let openai_cut = include_str!("fixtures/openai_cut.sse");
    let anthropic_cut = include_str!("fixtures/anthropic_cut.sse");
    for then in [None, Some(Step::HangUp)] {
        let with = |reply: Reply| then.clone().into_iter().fold(reply, Reply::then);
        let lines = openai(with(Reply::stream(openai_cut))).await.lines();
        assert_eq!(
            lines,
            ["text Half", "begun call_a bash", "input call_a {\"command\":\"rm -r build\"}", wanted],
            "{then:?}"
        );
        let lines = anthropic(with(Reply::stream(anthropic_cut))).await.lines();
        assert_eq!(
            lines,
            ["text Half", "begun toolu_a bash", "input toolu_a {\"command\":\"rm -r build\"}", wanted],
            "{then:?}"
        );
    }
    meet(Reply::text(200, "application/json", "{\"choices\": [{\"mess"), |name, error| {
        assert!(matches!(error, Error::Cut), "{name}: {error:?}");
    })
    .await;
}

#[tokio::test]
async fn invalid_utf8_is_replaced() {
    let bytes = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xff\xe2\x82b\"}}]}\n\ndata: [DONE]\n\n";
    assert_eq!(openai(Reply::stream(&bytes[..])).await.lines(), ["text a\u{fffd}\u{fffd}b", "end Stop"]);
}

#[tokio::test]
async fn garbage_is_reported_as_unreadable() {
    for events in ["data: garbage\n\n", "data: [1, 2]\n\n", "data: {\"type\": 7, \"choices\": 7}\n\n"] {
        meet(Reply::stream(events), |name, error| {
            assert!(matches!(error, Error::Garbage { .. }), "{name}, {events}: {error:?}");
        })
        .await;
    }
    meet(Reply::json(200, &json!({"hello": "world"})), |name, error| {
        assert!(matches!(error, Error::Garbage { .. }), "{name}: {error:?}");
    })
    .await;
    meet(Reply::text(200, "text/html", "<!doctype html>"), |name, error| {
        assert!(error.to_string().ends_with("a web page; check the address"), "{name}: {error}");
    })
    .await;
    meet(Reply::text(200, "text/event-stream", ""), |name, error| {
        assert!(matches!(error, Error::Cut), "{name}: {error:?}");
    })
    .await;
}

#[tokio::test]
async fn an_error_says_why_and_what_to_do() {
    for (status, words) in [
        (401, "check the key"),
        (403, "the permissions of the key"),
        (404, "ollama pull"),
        (429, "wait a little"),
        (529, "try again later"),
    ] {
        meet(Reply::json(status, &json!({"error": {"message": "because"}})), |name, error| {
            let reported = error.to_string();
            assert!(reported.contains(&format!("(status {status}): because; ")), "{name}: {reported}");
            assert!(reported.contains(words), "{name}: {reported}");
        })
        .await;
    }
    for (reply, wanted) in [
        (Reply::text(429, "text/plain", "").with_header("retry-after", "20"), "; try again in 20 seconds"),
        (Reply::text(429, "text/plain", "").with_header("retry-after", "soon"), "the limits of the key"),
        (Reply::text(500, "text/plain", "one\ntwo\u{7}"), "(status 500): one two"),
        (Reply::text(502, "text/html", "<h1>hello</h1>"), "(status 502): Bad Gateway"),
        (Reply::text(400, "text/plain", ""), "(status 400): Bad Request"),
        (Reply::text(204, "text/plain", ""), "(status 204): No Content"),
    ] {
        meet(reply, |name, error| assert!(error.to_string().ends_with(wanted), "{name}: {error}")).await;
    }
    meet(Reply::text(500, "text/plain", "x".repeat(100_000)), |name, error| {
        assert!(error.to_string().chars().count() < 600, "{name}: {error}");
    })
    .await;
}

#[tokio::test]
async fn silence_times_out() {
    let begun = Reply::stream(": hello\n\n").then(Step::StaySilent);
    for reply in [Reply::never(), begun] {
        meet(reply, |name, error| {
            assert!(matches!(error, Error::Silent { after } if *after == SILENCE_LIMIT), "{name}: {error:?}");
        })
        .await;
    }
    let slow = (0..3).fold(Reply::stream(": hello\n\n"), |reply, _| {
        reply.then(Step::Pause(SILENCE_LIMIT * 3 / 5)).then_say(": still here\n\n")
    });
    let slow = slow.then_say("data: [DONE]\n\n");
    assert_eq!(openai(slow).await.lines(), ["end Stop"], "a server that sends something does not time out");
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let base: Url = format!("http://{host}").parse().unwrap();
    let closes = tokio::spawn(async move {
        for _ in 0..2 {
            let (mut connection, _) = listener.accept().await.unwrap();
            let _ = connection.read(&mut [0; 64]).await;
        }
    });
    for (name, client) in both_at(&base) {
        let error = fault(&*client).await;
        assert_eq!(error.to_string(), format!("the model's server at {host} does not respond"), "{name}");
    }
    closes.await.unwrap();
    for (name, client) in both_at(&base) {
        let error = fault(&*client).await;
        assert!(matches!(error, Error::Unreachable { .. }), "{name}: {error:?}");
        let reported = error.to_string();
        assert!(reported.contains(&host) && reported.contains("is it running"), "{name}: {reported}");
    }
}

#[tokio::test]
async fn dropping_the_stream_ends_the_request() {
    let chunk = json!({"choices": [{"delta": {"content": "a"}}]});
    let block = json!({"type": "text", "text": "a"});
    let event = json!({"type": "content_block_start", "index": 0, "content_block": block});
    let begun = |event| Reply::stream(format!("data: {event}\n\n")).then(Step::StaySilent);
    let (openai, anthropic) =
        (ScriptedModel::start([begun(chunk)]).await, ScriptedModel::start([begun(event)]).await);
    let clients: [(&ScriptedModel, Box<dyn ModelClient>); 2] = [
        (&openai, Box::new(OpenAi::new(openai.base.clone(), None).unwrap())),
        (&anthropic, Box::new(Anthropic::new(anthropic.base.clone(), None).unwrap())),
    ];
    for (server, client) in clients {
        let mut answer = client.stream(question("hi"));
        assert_eq!(answer.next().await.unwrap().unwrap(), Piece::Text("a".to_owned()));
        drop(answer);
        server.until_left().await;
    }
}

#[tokio::test]
async fn a_connection_is_reused() {
    let events = include_str!("fixtures/openai_text.sse");
    let server = ScriptedModel::start([Reply::stream(events), Reply::stream(events)]).await;
    let (_, client) = both_at(&server.base).into_iter().next().unwrap();
    for _ in 0..2 {
        assert!(send(&*client, question("hi")).await.error.is_none());
    }
    let received = server.requests();
    assert_eq!(received[0].peer, received[1].peer);
}

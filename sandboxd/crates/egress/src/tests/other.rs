//! Protocols other than HTTP and TLS, on ports that a rule names.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::{SOON, carried, host};
use crate::{Broken, Expected};

#[tokio::test]
async fn a_server_may_send_first_on_a_named_port() {
    let expected = Some(Expected { host: host("a.example"), port: 22 });
    let (mut client, mut server, carrying) = carried(expected, None, SOON).await;
    server.write_all(b"SSH-2.0-x\r\n").await.unwrap();
    let mut received = [0; 11];
    timeout(SOON, client.read_exact(&mut received)).await.unwrap().unwrap();
    client.write_all(b"SSH-2.0-y\r\n").await.unwrap();
    timeout(SOON, server.read_exact(&mut received)).await.unwrap().unwrap();
    assert_eq!(&received, b"SSH-2.0-y\r\n");
    drop((client, server));
    let _ = timeout(SOON, carrying).await.unwrap();
}

#[tokio::test]
async fn an_http_2_server_that_sends_first_is_disconnected() {
    let expected = Some(Expected { host: host("a.example"), port: 8080 });
    let (_client, mut server, carrying) = carried(expected, None, SOON).await;
    server.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
    assert!(matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Mismatch)));
}

#[tokio::test]
async fn a_malformed_request_is_rejected_on_a_named_port() {
    let expected = || Some(Expected { host: host("a.example"), port: 8080 });
    let shapes =
        ["GET /a\r\n", "GET\t/a\tHTTP/1.1\r\nHost: evil.example\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    for shape in shapes {
        let (mut client, mut server, carrying) = carried(expected(), None, SOON).await;
        client.write_all(shape.as_bytes()).await.unwrap();
        assert!(
            matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Mismatch)),
            "{shape:?}"
        );
        let mut rest = Vec::new();
        let _ = timeout(SOON, server.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest, b"", "{shape:?}");
    }
    let (mut client, mut server, _carrying) = carried(expected(), None, SOON).await;
    client.write_all(b"*1\r\n$4\r\nPING\r\n").await.unwrap();
    let mut received = [0; 14];
    timeout(SOON, server.read_exact(&mut received)).await.unwrap().unwrap();
    assert_eq!(&received, b"*1\r\n$4\r\nPING\r\n");
}

#[tokio::test]
async fn a_request_hidden_by_control_characters_is_rejected() {
    let expected = || Some(Expected { host: host("a.example"), port: 8080 });
    let request = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let hidden = (1..0x20).chain([0x7f]).map(char::from).filter(|char| !"\t\r\n".contains(*char));
    for char in hidden {
        for at in [0, 2] {
            let mut shape = request.to_owned();
            shape.insert(at, char);
            let (mut client, mut server, carrying) = carried(expected(), None, SOON).await;
            // In two pieces, so that the first may pass as another protocol.
            for piece in [&shape[..at + 1], &shape[at + 1..]] {
                let _ = client.write_all(piece.as_bytes()).await;
                tokio::task::yield_now().await;
            }
            let ended = timeout(SOON, carrying).await.unwrap().unwrap();
            assert!(matches!(ended, Err(Broken::Mismatch)), "{char:?} at {at}: {ended:?}");
            let mut rest = Vec::new();
            let _ = timeout(SOON, server.read_to_end(&mut rest)).await.unwrap();
            assert!(rest.len() <= at + 1, "{char:?}: {}", rest.escape_ascii());
        }
    }
}

#[tokio::test]
async fn an_http_response_to_another_protocol_is_rejected() {
    let expected = || Some(Expected { host: host("a.example"), port: 8080 });
    for (answer, passes) in
        [("HTTP/1.1 200 OK\r\n\r\n", false), ("HTTQ", true), ("HT", true), ("+PONG\r\n", true)]
    {
        let (mut client, mut server, carrying) = carried(expected(), None, SOON).await;
        client.write_all(b"\x01\xffPING\r\n").await.unwrap();
        timeout(SOON, server.read_exact(&mut [0; 8])).await.unwrap().unwrap();
        let (begin, end) = answer.split_at(1);
        server.write_all(begin.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
        server.write_all(end.as_bytes()).await.unwrap();
        server.shutdown().await.unwrap();
        client.shutdown().await.unwrap();
        let mut received = String::new();
        timeout(SOON, client.read_to_string(&mut received)).await.unwrap().unwrap();
        assert_eq!(received, if passes { answer } else { "" });
        let ended = timeout(SOON, carrying).await.unwrap().unwrap();
        assert_eq!(ended.is_ok(), passes, "{answer}: {ended:?}");
    }
}

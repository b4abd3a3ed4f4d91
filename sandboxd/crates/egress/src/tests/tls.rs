//! TLS whose server asks for a second hello.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::{self, kx_group};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::{SOON, carried, host};
use crate::hello::tests::hello;
use crate::{Broken, Expected};

const CHANGE_CIPHER: &[u8] = b"\x14\x03\x03\0\x01\x01";
const EARLY_DATA: &[u8] = b"\x17\x03\x03\0\x03abc";
/// The random of a server that requests no further hello (RFC 8446, section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

fn secure(name: &str) -> Option<Expected> {
    Some(Expected { host: host(name), port: 443 })
}

/// The response of a server to a hello.
fn server_hello(random: [u8; 32]) -> Vec<u8> {
    let body = [&[3, 3][..], &random, &[0, 0x13, 1, 0, 0, 0]].concat();
    record(&[&[2, 0, 0, body.len() as u8][..], &body].concat())
}

fn record(content: &[u8]) -> Vec<u8> {
    [&[22, 3, 3][..], &(content.len() as u16).to_be_bytes(), content].concat()
}

/// The same hello in two records.
fn split(hello: &[u8], at: usize) -> Vec<u8> {
    let message = &hello[5..];
    [record(&message[..at]), record(&message[at..])].concat()
}

async fn receive(server: &mut tokio::net::TcpStream, wanted: &[u8]) {
    let mut received = vec![0; wanted.len()];
    timeout(SOON, server.read_exact(&mut received)).await.unwrap().unwrap();
    assert_eq!(received, wanted);
}

#[tokio::test]
async fn a_second_hello_must_have_the_same_name() {
    let (right, evil) = (hello("a.example"), hello("evil.example"));
    let seconds = [
        evil.clone(),
        [CHANGE_CIPHER, &evil].concat(),
        split(&evil, 1),
        split(&evil, 40),
        [EARLY_DATA, CHANGE_CIPHER, &split(&evil, 9)].concat(),
        [&right[..8], CHANGE_CIPHER, &right[8..]].concat(),
        [&split(&right, 9)[..14], CHANGE_CIPHER, &split(&right, 9)[14..]].concat(),
        record(&[&right[5..], &evil[5..]].concat()),
        record(&[16, 0, 0, 1, 0]),
        b"\x18\x03\x03\0\x01\x01".to_vec(),
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_vec(),
    ];
    for (at, second) in seconds.iter().enumerate() {
        for is_early in [false, true] {
            let (mut client, mut server, carrying) = carried(secure("a.example"), None, SOON).await;
            client.write_all(&right).await.unwrap();
            if is_early {
                client.write_all(second).await.unwrap();
            }
            receive(&mut server, &right).await;
            let _ = server.write_all(&server_hello(RETRY)).await;
            if !is_early {
                timeout(SOON, client.read_exact(&mut vec![0; server_hello(RETRY).len()]))
                    .await
                    .unwrap()
                    .unwrap();
                client.write_all(second).await.unwrap();
            }
            let ended = timeout(SOON, carrying).await.unwrap().unwrap();
            assert!(matches!(ended, Err(Broken::Mismatch)), "{at}, early {is_early}: {ended:?}");
            let mut rest = Vec::new();
            let _ = timeout(SOON, server.read_to_end(&mut rest)).await.unwrap();
            let hidden = rest.windows(4).any(|part| part == b"evil");
            assert!(!hidden, "{at}, early {is_early}: {}", rest.escape_ascii());
        }
    }
}

#[tokio::test]
async fn a_handshake_with_one_name_passes_however_it_is_split() {
    let right = hello("a.example");
    let retry = server_hello(RETRY);
    let retries = [retry.clone(), split(&retry, 1), split(&retry, 37), [CHANGE_CIPHER, &retry].concat()];
    for retry in retries {
        let (mut client, mut server, carrying) = carried(secure("a.example"), None, SOON).await;
        let flight = [&right, CHANGE_CIPHER, EARLY_DATA].concat();
        client.write_all(&flight).await.unwrap();
        receive(&mut server, &flight).await;
        for byte in &retry {
            server.write_all(&[*byte]).await.unwrap();
        }
        timeout(SOON, client.read_exact(&mut vec![0; retry.len()])).await.unwrap().unwrap();
        let flight = [CHANGE_CIPHER, &split(&right, 20)].concat();
        client.write_all(&flight).await.unwrap();
        receive(&mut server, &flight).await;
        server.write_all(&server_hello([1; 32])).await.unwrap();
        timeout(SOON, client.read_exact(&mut vec![0; server_hello(RETRY).len()])).await.unwrap().unwrap();
        // The rest of TLS 1.2. Encrypted parts have arbitrary bytes.
        let rest =
            [&record(&[16, 0, 0, 1, 0]), CHANGE_CIPHER, &record(b"\x01\xff\xff"), b"\x17\x03\x03"].concat();
        client.write_all(&rest).await.unwrap();
        receive(&mut server, &rest).await;
        drop((client, server));
        let _ = timeout(SOON, carrying).await.unwrap();
    }
}

#[tokio::test]
async fn every_further_hello_is_checked() {
    let right = hello("a.example");
    let (mut client, mut server, carrying) = carried(secure("a.example"), None, SOON).await;
    for _ in 0..2 {
        client.write_all(&right).await.unwrap();
        receive(&mut server, &right).await;
        server.write_all(&server_hello(RETRY)).await.unwrap();
    }
    client.write_all(&hello("evil.example")).await.unwrap();
    assert!(matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Mismatch)));
}

#[tokio::test]
async fn a_server_without_tls_is_disconnected() {
    let right = hello("a.example");
    let (mut client, mut server, carrying) = carried(secure("a.example"), None, SOON).await;
    client.write_all(&right).await.unwrap();
    receive(&mut server, &right).await;
    server.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    timeout(SOON, client.read_exact(&mut [0; 28])).await.unwrap().unwrap();
    client.write_all(CHANGE_CIPHER).await.unwrap();
    assert!(matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Mismatch)));
}

#[tokio::test]
async fn real_peers_connect_with_and_without_a_second_hello() {
    let made = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    for (groups, kind) in [
        (vec![kx_group::SECP384R1], HandshakeKind::FullWithHelloRetryRequest),
        (vec![kx_group::X25519, kx_group::SECP384R1], HandshakeKind::Full),
    ] {
        let provider = |kx_groups| Arc::new(ring_provider(kx_groups));
        let server = ServerConfig::builder_with_provider(provider(groups));
        let server = server.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let server = server.with_single_cert(vec![made.cert.der().clone()], key.clone_key()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client =
            ClientConfig::builder_with_provider(provider(vec![kx_group::X25519, kx_group::SECP384R1]));
        let client = client.with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();

        let (near, far, carrying) = carried(secure("a.example"), None, SOON).await;
        let name = ServerName::try_from("a.example").unwrap();
        let connector = TlsConnector::from(Arc::new(client));
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let both = async { tokio::try_join!(connector.connect(name, near), acceptor.accept(far)) };
        let (mut near, mut far) = timeout(SOON, both).await.unwrap().unwrap();
        assert_eq!(near.get_ref().1.handshake_kind(), Some(kind));
        near.write_all(b"question").await.unwrap();
        near.shutdown().await.unwrap();
        let mut received = String::new();
        timeout(SOON, far.read_to_string(&mut received)).await.unwrap().unwrap();
        far.write_all(b"answer").await.unwrap();
        far.shutdown().await.unwrap();
        received.clear();
        timeout(SOON, near.read_to_string(&mut received)).await.unwrap().unwrap();
        assert_eq!(received, "answer");
        drop((near, far));
        assert!(timeout(SOON, carrying).await.unwrap().unwrap().is_ok());
    }
}

fn ring_provider(
    kx_groups: Vec<&'static dyn tokio_rustls::rustls::crypto::SupportedKxGroup>,
) -> tokio_rustls::rustls::crypto::CryptoProvider {
    tokio_rustls::rustls::crypto::CryptoProvider { kx_groups, ..ring::default_provider() }
}

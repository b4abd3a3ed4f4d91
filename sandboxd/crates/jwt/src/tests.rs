use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use sandboxd_model::jwt::JwtAlgorithm;
use sandboxd_model::{ProjectName, Scopes};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const SECRET: &[u8] = b"a secret of thirty-two bytes, or more";

fn settings(keys: JwtKeys) -> JwtSettings {
    let algorithms = match keys {
        JwtKeys::Secret(_) => vec![JwtAlgorithm::Hs256],
        _ => JwtAlgorithm::ASYMMETRIC.to_vec(),
    };
    JwtSettings {
        keys,
        algorithms,
        issuer: Some("https://id.example".into()),
        audiences: vec!["sandboxd".into()],
        subject_claim: "sub".into(),
        project_claim: None,
        project: ProjectName::default(),
        scopes: Scopes::USE,
    }
}

fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
}

fn claims() -> Value {
    json!({
        "sub": "ann", "iss": "https://id.example", "aud": "sandboxd", "exp": now() + 600, "iat": now(),
    })
}

/// A key pair with an id.
struct Signer {
    id: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Signer {
    fn new(id: &str, algorithm: Algorithm) -> Self {
        let kind = match algorithm {
            Algorithm::ES384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
            _ => &ECDSA_P256_SHA256_FIXED_SIGNING,
        };
        let pair = EcdsaKeyPair::generate_pkcs8(kind, &SystemRandom::new()).unwrap();
        Self { id: id.into(), algorithm, key: EncodingKey::from_ec_der(pair.as_ref()) }
    }

    fn jwk(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        jwk.common.key_id = Some(self.id.clone());
        serde_json::to_value(jwk).unwrap()
    }

    fn sign(&self, claims: &Value) -> Vec<u8> {
        let header = Header { kid: Some(self.id.clone()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.key).unwrap().into_bytes()
    }
}

fn with_secret(header: &Header, claims: &Value) -> Vec<u8> {
    encode(header, claims, &EncodingKey::from_secret(SECRET)).unwrap().into_bytes()
}

async fn of_secret() -> Arc<Verifier> {
    Verifier::new(settings(JwtKeys::Secret(SECRET.to_vec()))).await.unwrap()
}

async fn of_file(keys: &[Value]) -> (Arc<Verifier>, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), json!({ "keys": keys }).to_string()).unwrap();
    (Verifier::new(settings(JwtKeys::File(file.path().to_owned()))).await.unwrap(), file)
}

fn changed(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

#[tokio::test]
async fn a_token_stands_for_its_subject_and_project() {
    let verifier = of_secret().await;
    let found = verifier.verify(&with_secret(&Header::default(), &claims())).await.unwrap();
    assert_eq!((found.project.as_str(), found.subject.as_str()), ("default", "ann"));
    assert!((found.issued_at_ms / 1000 - now()).abs() < 60);

    let by_claim = JwtSettings {
        project_claim: Some("team".into()),
        subject_claim: "email".into(),
        ..settings(JwtKeys::Secret(SECRET.to_vec()))
    };
    let verifier = Verifier::new(by_claim).await.unwrap();
    let mut claims = changed("team", "lab".into());
    claims["email"] = "ann@example.com".into();
    let found = verifier.verify(&with_secret(&Header::default(), &claims)).await.unwrap();
    assert_eq!((found.project.as_str(), found.subject.as_str()), ("lab", "ann@example.com"));
    claims["team"] = "No Project".into();
    assert_eq!(verifier.verify(&with_secret(&Header::default(), &claims)).await, None);
}

#[tokio::test]
async fn claims_that_are_wrong_or_missing_are_refused() {
    let verifier = of_secret().await;
    let wrong = [
        without("exp"),
        without("aud"),
        without("iss"),
        without("sub"),
        changed("exp", (now() - 60).into()),
        changed("exp", "soon".into()),
        changed("nbf", (now() + 600).into()),
        changed("aud", "another-app".into()),
        changed("aud", json!(["another-app"])),
        changed("iss", "https://evil.example".into()),
        changed("iss", json!(["https://id.example", 7])),
        changed("sub", 7.into()),
        changed("sub", "a b".into()),
        changed("sub", "s".repeat(257).into()),
        changed("iat", "now".into()),
        changed("iat", (now() + 600).into()),
    ];
    for claims in wrong {
        assert_eq!(verifier.verify(&with_secret(&Header::default(), &claims)).await, None, "{claims}");
    }
    let several = changed("aud", json!(["another-app", "sandboxd"]));
    assert!(verifier.verify(&with_secret(&Header::default(), &several)).await.is_some());
    let without_time = without("iat");
    let found = verifier.verify(&with_secret(&Header::default(), &without_time)).await.unwrap();
    assert_eq!(found.issued_at_ms, 0);
}

#[tokio::test]
async fn only_the_algorithms_of_the_settings_are_accepted() {
    let signer = Signer::new("one", Algorithm::ES256);
    let (verifier, _file) = of_file(&[signer.jwk()]).await;
    let good = signer.sign(&claims());
    assert!(verifier.verify(&good).await.is_some());

    // The public key as the secret of an HMAC, which a verifier that believes the header would accept.
    let key = signer.jwk().to_string();
    let header = Header { kid: Some("one".into()), ..Header::new(Algorithm::HS256) };
    let confused = encode(&header, &claims(), &EncodingKey::from_secret(key.as_bytes())).unwrap();
    assert_eq!(verifier.verify(confused.as_bytes()).await, None);

    // `alg: none`, with and without the signature of another token.
    let parts: Vec<&str> = std::str::from_utf8(&good).unwrap().split('.').collect();
    let none = "eyJhbGciOiJub25lIiwia2lkIjoib25lIn0";
    for forged in [format!("{none}.{}.", parts[1]), format!("{none}.{}.{}", parts[1], parts[2])] {
        assert_eq!(verifier.verify(forged.as_bytes()).await, None, "{forged}");
    }
    // Another curve than that of the key's algorithm.
    let other = Signer::new("one", Algorithm::ES384);
    assert_eq!(verifier.verify(&other.sign(&claims())).await, None);
    // Cross-signed: another key with the same id.
    let other = Signer::new("one", Algorithm::ES256);
    assert_eq!(verifier.verify(&other.sign(&claims())).await, None);
    let critical = Header { crit: Some(vec!["b64".into()]), ..Header::default() };
    assert_eq!(of_secret().await.verify(&with_secret(&critical, &claims())).await, None);
}

#[tokio::test]
async fn each_changed_character_is_noticed() {
    let verifier = of_secret().await;
    let token = with_secret(&Header::default(), &claims());
    assert!(verifier.verify(&token).await.is_some());
    for at in 0..token.len() {
        for byte in [b'A', b'z', b'.', b'=', 0, 0xff] {
            let mut changed = token.clone();
            changed[at] = byte;
            assert!(changed == token || verifier.verify(&changed).await.is_none(), "at {at}: {byte}");
        }
        assert_eq!(verifier.verify(&token[..at]).await, None);
    }
    let long = [&token[..], &vec![b'A'; limits::MAX_JWT_BYTES]].concat();
    assert_eq!(verifier.verify(&long).await, None);
}

#[tokio::test]
async fn keys_that_cannot_be_used_are_skipped() {
    let (one, two) = (Signer::new("one", Algorithm::ES256), Signer::new("two", Algorithm::ES384));
    let mut for_encryption = Signer::new("three", Algorithm::ES256).jwk();
    for_encryption["use"] = "enc".into();
    let unknown = json!({ "kty": "AKP", "kid": "four", "alg": "ML-DSA-44", "pub": "AA" });
    let (verifier, _file) = of_file(&[unknown, for_encryption, json!(7), one.jwk(), two.jwk()]).await;
    assert!(verifier.verify(&one.sign(&claims())).await.is_some());
    assert!(verifier.verify(&two.sign(&claims())).await.is_some());
    // Without a key id, the algorithm names the only key.
    let without_id = encode(&Header::new(Algorithm::ES256), &claims(), &one.key).unwrap();
    assert!(verifier.verify(without_id.as_bytes()).await.is_some());

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[]").unwrap();
    let refused = Verifier::new(settings(JwtKeys::File(file.path().to_owned()))).await.unwrap_err();
    assert!(matches!(refused, SourceError::NoKeySet), "{refused}");
}

/// A server that answers each request with the current text, and counts them.
struct Issuer {
    url: String,
    text: Arc<std::sync::Mutex<String>>,
    requests: Arc<AtomicUsize>,
}

impl Issuer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let (text, requests) =
            (Arc::new(std::sync::Mutex::new(String::new())), Arc::new(AtomicUsize::new(0)));
        let (answer, count) = (Arc::clone(&text), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let response = answer.lock().unwrap().clone();
                let _ = stream.write_all(response.as_bytes()).await;
            }
        });
        Self { url, text, requests }
    }

    fn set(&self, keys: &[Value]) {
        let body = json!({ "keys": keys }).to_string();
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length:";
        *self.text.lock().unwrap() = format!("{head} {}\r\n\r\n{body}", body.len());
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn an_unknown_key_requests_the_set_at_most_once_a_minute() {
    let (old, new) = (Signer::new("old", Algorithm::ES256), Signer::new("new", Algorithm::ES256));
    let issuer = Issuer::start().await;
    issuer.set(&[old.jwk()]);
    let verifier = Verifier::new(settings(JwtKeys::Url(issuer.url.clone()))).await.unwrap();
    assert_eq!(issuer.requests(), 0);
    let token = old.sign(&claims());
    let found = futures::future::join_all((0..20).map(|_| verifier.verify(&token))).await;
    assert!(found.iter().all(Option::is_some));
    assert_eq!(issuer.requests(), 1);

    issuer.set(&[new.jwk()]);
    assert_eq!(verifier.verify(&new.sign(&claims())).await, None, "within the minute");
    assert_eq!(issuer.requests(), 1);
    *verifier.requested.lock().await = Some(Instant::now() - limits::JWKS_FETCH_EVERY);
    assert!(verifier.verify(&new.sign(&claims())).await.is_some());
    assert_eq!(issuer.requests(), 2);
    assert_eq!(verifier.verify(&token).await, None, "its key was removed, although it was verified before");

    // The issuer is down: what works continues.
    *issuer.text.lock().unwrap() =
        "HTTP/1.1 503 Down\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into();
    *verifier.requested.lock().await = Some(Instant::now() - limits::JWKS_FETCH_EVERY);
    assert_eq!(verifier.verify(&old.sign(&claims())).await, None);
    assert_eq!(issuer.requests(), 3);
    assert!(verifier.verify(&new.sign(&claims())).await.is_some());
}

#[tokio::test]
async fn a_set_without_keys_replaces_none() {
    let signer = Signer::new("one", Algorithm::ES256);
    let issuer = Issuer::start().await;
    issuer.set(&[signer.jwk()]);
    let verifier = Verifier::new(settings(JwtKeys::Url(issuer.url.clone()))).await.unwrap();
    verifier.fetch().await;
    for broken in [vec![], vec![json!(7)], vec![json!({ "kty": "EC", "kid": "one" })]] {
        issuer.set(&broken);
        *verifier.requested.lock().await = None;
        verifier.refresh().await;
        assert!(verifier.verify(&signer.sign(&claims())).await.is_some(), "{broken:?}");
    }
    assert_eq!(issuer.requests(), 4);
}

/// A token that comes after the head of a request cannot wait for the keys.
#[tokio::test]
async fn keys_are_fetched_before_the_first_token() {
    let signer = Signer::new("one", Algorithm::ES256);
    let issuer = Issuer::start().await;
    issuer.set(&[signer.jwk()]);
    let verifier = Verifier::new(settings(JwtKeys::Url(issuer.url.clone()))).await.unwrap();
    verifier.fetch().await;
    assert!(verifier.verify_with_known_keys(&signer.sign(&claims())).is_some());
    assert_eq!(issuer.requests(), 1);
    // A new key is not known yet, and is fetched for the next attempt.
    let next = Signer::new("two", Algorithm::ES256);
    issuer.set(&[signer.jwk(), next.jwk()]);
    *verifier.requested.lock().await = None;
    let mut attempts = (0..1_000_000).map(|_| verifier.verify_with_known_keys(&next.sign(&claims())));
    assert!(attempts.next().unwrap().is_none());
    while attempts.next().is_some_and(|found| found.is_none()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(issuer.requests(), 2);
}

#[tokio::test]
async fn an_issuer_that_starts_later_is_asked_again() {
    let signer = Signer::new("one", Algorithm::ES256);
    let issuer = Issuer::start().await;
    *issuer.text.lock().unwrap() =
        "HTTP/1.1 503 Down\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into();
    let verifier = Verifier::new(settings(JwtKeys::Url(issuer.url.clone()))).await.unwrap();
    verifier.refresh().await;
    assert!(verifier.keys().is_empty());
    issuer.set(&[signer.jwk()]);
    // Sooner than a set that is there would be requested again.
    *verifier.requested.lock().await = Some(Instant::now() - limits::FIRST_JWKS_FETCH_EVERY);
    verifier.fetch().await;
    assert!(verifier.verify_with_known_keys(&signer.sign(&claims())).is_some());
    assert_eq!(issuer.requests(), 2);
}

#[tokio::test]
async fn key_sets_that_are_too_large_or_elsewhere_are_refused() {
    let issuer = Issuer::start().await;
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    *issuer.text.lock().unwrap() = format!("{head}{}", " ".repeat(limits::MAX_JWKS_BYTES + 1));
    let refused = source::read(&JwtKeys::Url(issuer.url.clone())).await.unwrap_err();
    assert!(matches!(refused, SourceError::TooLarge), "{refused}");
    let target = Issuer::start().await;
    *issuer.text.lock().unwrap() = format!(
        "HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        target.url
    );
    let refused = source::read(&JwtKeys::Url(issuer.url.clone())).await.unwrap_err();
    assert!(matches!(refused, SourceError::Status(http::StatusCode::FOUND)), "{refused}");
    assert_eq!(target.requests(), 0);
}

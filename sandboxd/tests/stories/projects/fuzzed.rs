//! Credentials that are nearly right, or not at all: no request with one succeeds, and none makes the daemon fail.

use axum::http::HeaderValue;
use futures::future::join_all;
use jsonwebtoken::{EncodingKey, Header, encode};
use sandbox_api::project::CreateChildToken;
use sandbox_client::Client;
use serde_json::json;

use super::{token_of, without_rate_limits};
use crate::support::harness::{Daemon, Home, TOKEN};
use crate::support::http::{Answer, HttpClient};

/// Requests at the same time.
const AT_ONCE: usize = 16;

/// Requests with changed credentials.
const ROUNDS: usize = 200;

const SECRET: &str = "a secret of thirty-two bytes, or more";

/// Numbers that look random and are the same in each run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        // Bytes that a header may have (RFC 9110 section 5.5).
        match self.below(4) {
            0 => 0x80 | self.below(0x80) as u8,
            _ => 0x20 + self.below(0x5f) as u8,
        }
    }
}

/// Changes a token in one to four places.
fn changed(token: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut token = token.to_vec();
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(token.len().max(1));
        match numbers.below(6) {
            0 => token.truncate(at),
            1 => token.insert(at.min(token.len()), numbers.byte()),
            2 if !token.is_empty() => drop(token.remove(at)),
            3 => token.extend_from_within(at.min(token.len())..),
            4 => token = token.to_ascii_uppercase(),
            _ => {
                if let Some(byte) = token.get_mut(at) {
                    *byte = numbers.byte();
                }
            }
        }
    }
    token
}

/// The two headers of a request, of which one or both have a token.
fn headers(token: Vec<u8>, numbers: &mut Numbers) -> Vec<(&'static str, Vec<u8>)> {
    let schemes: [&[u8]; 6] = [b"Bearer ", b"bearer  ", b"Basic ", b"Bearer", b"Token ", b""];
    let with_scheme = [schemes[numbers.below(schemes.len())], &token].concat();
    match numbers.below(4) {
        0 => vec![("x-remcochat-admin-token", token)],
        1 => vec![("authorization", with_scheme), ("x-remcochat-admin-token", token)],
        2 => vec![("authorization", with_scheme.clone()), ("authorization", with_scheme)],
        _ => vec![("authorization", with_scheme)],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_changed_credential_is_accepted() {
    let home = without_rate_limits(Home::new());
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (secret, key) = (file("jwt-secret", SECRET), file("front-key", &"f".repeat(40)));
    let home = home.set("SANDBOXD_JWT_SECRET_FILE", &secret).set("SANDBOXD_JWT_AUDIENCE", "sandboxd");
    let home = home.set("SANDBOXD_FRONT_KEY_FILE", &key).set("SANDBOXD_FRONT_ADDRESSES", "127.0.0.1");
    let daemon = Daemon::start_in(home).await;
    let project = token_of(&daemon, "lab", Some("ann"), &["use", "manage"]).await.token;
    let client = Client::new(&daemon.base, &project).unwrap();
    let child = client.create_child_token(&CreateChildToken::default()).await.unwrap().token;
    let claims = json!({ "sub": "ann", "aud": "sandboxd", "exp": jiff::Timestamp::now().as_second() + 600 });
    let jwt = encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap();
    let valid = [TOKEN.to_owned(), project, child, jwt];
    let api = HttpClient::of(&daemon);
    for token in &valid {
        let request =
            api.without_token("GET", "/v1/whoami").header("authorization", format!("Bearer {token}"));
        assert_eq!(Answer::to(request).await.status, 200, "{token}");
    }

    let mut numbers = Numbers(0x5eed_0f7e);
    for _ in 0..ROUNDS {
        let mut requests = Vec::new();
        for _ in 0..AT_ONCE {
            let token = changed(valid[numbers.below(valid.len())].as_bytes(), &mut numbers);
            if valid.iter().any(|valid| valid.as_bytes() == token.trim_ascii()) {
                continue;
            }
            let mut request = api.without_token("GET", "/v1/sandboxes");
            for (name, value) in headers(token, &mut numbers) {
                // Without those that no client can send.
                if let Ok(value) = HeaderValue::from_bytes(&value) {
                    request = request.header(name, value);
                }
            }
            requests.push(Answer::to(request));
        }
        for answer in join_all(requests).await {
            // 429 after many wrong ones. 400 for headers that are ambiguous.
            let body = String::from_utf8_lossy(&answer.body);
            assert!(matches!(answer.status, 400 | 401 | 429), "{}: {body}", answer.status);
        }
    }
    daemon.client.whoami().await.expect("the right token is still accepted");
    daemon.stop().await;
}

//! Child tokens: short-lived tokens that are made from another token.
//!
//! Nothing about one is stored. It says what it permits and until when, and is authenticated with the instance key. It
//! ends with the token that it comes from, because each request checks that too.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sandbox_api::{SandboxId, TokenId};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::principal::{Fingerprint, Root};
use super::{Instance, Owner, Principal, Scopes, limits};

/// Beginning of every child token.
const CHILD_TOKEN_PREFIX: &str = "sbc_";

/// Bytes of a token's authentication.
const MAC_BYTES: usize = 32;

/// What a child token permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildGrant {
    /// Where its right comes from.
    pub root: Root,
    /// Name of the token that it comes from.
    pub token: String,
    /// Whom what is created with it belongs to.
    pub owner: Owner,
    /// What it permits.
    pub scopes: Scopes,
    /// The only sandbox that it reaches. `None` is every one of its owner.
    pub sandbox: Option<SandboxId>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub issued_at_ms: i64,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

/// A [`ChildGrant`] as it is authenticated. The names are short, because they are part of each request.
#[derive(Serialize, Deserialize)]
struct Claims<'a> {
    #[serde(rename = "r")]
    root: RootClaim,
    #[serde(rename = "t", borrow)]
    token: Cow<'a, str>,
    #[serde(rename = "p", borrow)]
    project: Cow<'a, str>,
    #[serde(rename = "s", borrow, skip_serializing_if = "Option::is_none")]
    subject: Option<Cow<'a, str>>,
    #[serde(rename = "c")]
    scopes: u8,
    #[serde(rename = "b", skip_serializing_if = "Option::is_none")]
    sandbox: Option<SandboxId>,
    #[serde(rename = "i")]
    issued_at_ms: i64,
    #[serde(rename = "e")]
    expires_at_ms: i64,
}

#[derive(Serialize, Deserialize)]
enum RootClaim {
    #[serde(rename = "o")]
    Operator([u8; 16]),
    #[serde(rename = "t")]
    Token(TokenId),
    #[serde(rename = "j")]
    Jwt,
    #[serde(rename = "f")]
    Front([u8; 16]),
}

impl ChildGrant {
    /// The token: `sbc_`, then letters, digits, `-` and `_`. `None` if its root makes no child tokens.
    pub fn seal(&self, instance: &Instance) -> Option<String> {
        let claims = Claims {
            root: RootClaim::of(&self.root)?,
            token: self.token.as_str().into(),
            project: self.owner.project.as_str().into(),
            subject: self.owner.subject.as_ref().map(|subject| subject.as_str().into()),
            scopes: self.scopes.to_bits(),
            sandbox: self.sandbox.clone(),
            issued_at_ms: self.issued_at_ms,
            expires_at_ms: self.expires_at_ms,
        };
        let claims = serde_json::to_vec(&claims).ok()?;
        let token = [&instance.child_mac(&claims)[..], &claims].concat();
        Some(format!("{CHILD_TOKEN_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(token)))
    }

    /// Reads a token. `None` if this instance has not made it. An expired one is read too.
    pub fn open(given: &[u8], instance: &Instance) -> Option<Self> {
        let given = given.strip_prefix(CHILD_TOKEN_PREFIX.as_bytes())?;
        if given.len() > limits::MAX_CHILD_TOKEN_BYTES {
            return None;
        }
        let token = BASE64_URL_SAFE_NO_PAD.decode(given).ok()?;
        let (mac, claims) = token.split_at_checked(MAC_BYTES)?;
        let is_authentic: bool = instance.child_mac(claims)[..].ct_eq(mac).into();
        if !is_authentic {
            return None;
        }
        let claims: Claims<'_> = serde_json::from_slice(claims).ok()?;
        Some(Self {
            root: claims.root.into(),
            token: claims.token.into_owned(),
            owner: Owner {
                project: claims.project.parse().ok()?,
                subject: claims.subject.map(|subject| subject.parse()).transpose().ok()?,
            },
            scopes: Scopes::from_bits(claims.scopes)?,
            sandbox: claims.sandbox,
            issued_at_ms: claims.issued_at_ms,
            expires_at_ms: claims.expires_at_ms,
        })
    }

    /// Its holder.
    pub fn into_principal(self) -> Principal {
        Principal {
            owner: self.owner,
            scopes: self.scopes,
            token: self.token.into(),
            is_operator: false,
            is_for_tools: false,
            root: self.root,
            expires_at_ms: Some(self.expires_at_ms),
            issued_at_ms: Some(self.issued_at_ms),
            sandbox: self.sandbox,
        }
    }
}

impl RootClaim {
    fn of(root: &Root) -> Option<Self> {
        match root {
            Root::Operator(fingerprint) => Some(Self::Operator(fingerprint.0)),
            Root::Token(id) => Some(Self::Token(id.clone())),
            Root::Jwt => Some(Self::Jwt),
            Root::Front(fingerprint) => Some(Self::Front(fingerprint.0)),
            // It reaches only surfaces, and a child would reach the API.
            Root::ToolToken => None,
        }
    }
}

impl From<RootClaim> for Root {
    fn from(claim: RootClaim) -> Self {
        match claim {
            RootClaim::Operator(fingerprint) => Self::Operator(Fingerprint(fingerprint)),
            RootClaim::Token(id) => Self::Token(id),
            RootClaim::Jwt => Self::Jwt,
            RootClaim::Front(fingerprint) => Self::Front(Fingerprint(fingerprint)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grant() -> ChildGrant {
        ChildGrant {
            root: Root::Operator(Fingerprint([7; 16])),
            token: "admin".into(),
            owner: Owner::default(),
            scopes: Scopes::USE,
            sandbox: None,
            issued_at_ms: 1_700_000_000_000,
            expires_at_ms: 1_800_000_000_000,
        }
    }

    #[test]
    fn a_token_says_what_its_grant_permits() {
        let instance = Instance::new([1; 32]);
        let of_token = Root::Token("tok_0123456789abcdef".parse().unwrap());
        for root in
            [Root::Operator(Fingerprint([0xff; 16])), of_token, Root::Jwt, Root::Front(Fingerprint([1; 16]))]
        {
            let longest = Owner {
                project: "p".repeat(crate::owner::MAX_PROJECT_BYTES).parse().unwrap(),
                subject: Some("\\".repeat(crate::owner::MAX_SUBJECT_BYTES).parse().unwrap()),
            };
            let sandbox = Some("sbx_0123456789abcdefAB".parse().unwrap());
            let grant = ChildGrant { root, owner: longest, sandbox, ..grant() };
            let token = grant.seal(&instance).unwrap();
            assert!(token.len() <= limits::MAX_CHILD_TOKEN_BYTES, "{}", token.len());
            assert_eq!(ChildGrant::open(token.as_bytes(), &instance), Some(grant));
        }
        assert_eq!(ChildGrant { root: Root::ToolToken, ..grant() }.seal(&instance), None);
    }

    #[test]
    fn subjects_that_need_an_escape_are_read_back() {
        let instance = Instance::new([1; 32]);
        let owner = Owner { subject: Some("a\\b\"c".parse().unwrap()), ..Owner::default() };
        let grant = ChildGrant { owner, ..grant() };
        assert_eq!(ChildGrant::open(grant.seal(&instance).unwrap().as_bytes(), &instance), Some(grant));
    }

    #[test]
    fn tokens_of_other_instances_are_rejected() {
        let token = grant().seal(&Instance::new([1; 32])).unwrap();
        assert_eq!(ChildGrant::open(token.as_bytes(), &Instance::new([2; 32])), None);
    }

    proptest! {
        #[test]
        fn a_changed_token_is_rejected(at in 0_usize..200, byte in any::<u8>()) {
            let instance = Instance::new([1; 32]);
            let token = grant().seal(&instance).unwrap().into_bytes();
            let at = at % token.len();
            let mut changed = token.clone();
            changed[at] = byte;
            // The last character of a Base64 text may have unused bits; a decoder must not accept two spellings.
            prop_assert_eq!(ChildGrant::open(&changed, &instance).is_some(), changed == token);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(given in prop::collection::vec(any::<u8>(), 0..300)) {
            let given = [CHILD_TOKEN_PREFIX.as_bytes(), &given].concat();
            prop_assert_eq!(ChildGrant::open(&given, &Instance::new([1; 32])), None);
        }
    }
}

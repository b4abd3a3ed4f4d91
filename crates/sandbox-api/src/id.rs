//! Identifiers: a prefix for the type, and random characters that cannot be guessed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Random characters of a generated id: 128 bits in an alphabet of 62 characters.
const RANDOM_CHARS: usize = 22;

/// Allowed number of random characters.
const MIN_CHARS: usize = 16;
const MAX_CHARS: usize = 64;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The text is not an id of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not `{prefix}` followed by {MIN_CHARS} to {MAX_CHARS} letters or digits")]
pub struct IdError {
    prefix: &'static str,
}

macro_rules! id {
    ($(#[doc = $doc:literal])* $name:ident, $prefix:literal) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Generates an id. Fails only if the system has no randomness.
            pub fn random() -> Result<Self, getrandom::Error> {
                Ok(Self(random($prefix)?))
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                if is_valid(text, $prefix) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(IdError { prefix: $prefix })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                schema($prefix, concat!($($doc),*))
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// Id of a sandbox: `sbx_…`.
    SandboxId,
    "sbx_"
);
id!(
    /// Id of a command: `cmd_…`.
    CommandId,
    "cmd_"
);
id!(
    /// Id of a terminal: `trm_…`.
    TerminalId,
    "trm_"
);
id!(
    /// Id of a context: `ctx_…`.
    ContextId,
    "ctx_"
);
id!(
    /// Id of a preview link: `lnk_…`. It does not grant access. Only the secret in the link's URL does.
    LinkId,
    "lnk_"
);
id!(
    /// Id of a snapshot: `snap_…`.
    SnapshotId,
    "snap_"
);
id!(
    /// Id of a project's token: `tok_…`. It does not grant access.
    TokenId,
    "tok_"
);
id!(
    /// Id of a denial: `den_…`.
    DenialId,
    "den_"
);

fn is_valid(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        (MIN_CHARS..=MAX_CHARS).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

#[cfg(feature = "openapi")]
fn schema(prefix: &str, description: &str) -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    use utoipa::openapi::schema::{ObjectBuilder, Type};
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description.trim()))
        .pattern(Some(format!("^{prefix}[A-Za-z0-9]{{{MIN_CHARS},{MAX_CHARS}}}$")))
        .examples([format!("{prefix}0123456789abcdefghijkl")])
        .into()
}

fn random(prefix: &str) -> Result<String, getrandom::Error> {
    let mut text = String::with_capacity(prefix.len() + RANDOM_CHARS);
    text.push_str(prefix);
    let mut bytes = [0; 2 * RANDOM_CHARS];
    while text.len() < prefix.len() + RANDOM_CHARS {
        getrandom::fill(&mut bytes)?;
        // 248 is the largest multiple of 62 in a byte. Larger values would favor some characters.
        let usable = bytes.iter().filter(|byte| **byte < 248);
        let missing = prefix.len() + RANDOM_CHARS - text.len();
        text.extend(usable.take(missing).map(|byte| char::from(ALPHABET[usize::from(*byte) % 62])));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_id_is_valid_and_unique() {
        let (one, two) = (SandboxId::random().unwrap(), SandboxId::random().unwrap());
        assert_eq!(one.as_str().parse(), Ok(one.clone()));
        assert_eq!(one.as_str().len(), 4 + RANDOM_CHARS);
        assert_ne!(one, two);
    }

    #[test]
    fn other_text_is_rejected() {
        for text in [
            "",
            "sbx_",
            "sbx_short",
            "cmd_aaaaaaaaaaaaaaaaaaaa",
            "sbx_aaaaaaaaaaaaaaa/",
            "sbx_aaaaaaaaaaaaaaaaé",
            &format!("sbx_{}", "a".repeat(65)),
        ] {
            assert!(text.parse::<SandboxId>().is_err(), "{text:?}");
        }
    }
}

//! Identifiers: a prefix that says of what, and random characters nobody can guess.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Random characters of an id made here: 128 bits of 62 characters.
const RANDOM_CHARS: usize = 22;

/// Random characters an id may have.
const MIN_CHARS: usize = 16;
const MAX_CHARS: usize = 64;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The text is not an id of the wanted kind.
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
            /// A new id. Fails only where the system has no randomness.
            pub fn random() -> Result<Self, getrandom::Error> {
                Ok(Self(random($prefix)?))
            }

            /// The id as text.
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
    /// A sandbox: `sbx_…`.
    SandboxId,
    "sbx_"
);
id!(
    /// A command: `cmd_…`.
    CommandId,
    "cmd_"
);
id!(
    /// A terminal: `trm_…`.
    TerminalId,
    "trm_"
);
id!(
    /// A link to a preview: `lnk_…`. It opens nothing: that is the link's own secret, which is only in its URL.
    LinkId,
    "lnk_"
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
        // 248 is the largest multiple of 62 in a byte: what lies above would favour some characters.
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
    fn a_new_id_is_valid_and_its_own() {
        let (one, two) = (SandboxId::random().unwrap(), SandboxId::random().unwrap());
        assert_eq!(one.as_str().parse(), Ok(one.clone()));
        assert_eq!(one.as_str().len(), 4 + RANDOM_CHARS);
        assert_ne!(one, two);
    }

    #[test]
    fn anything_else_is_refused() {
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

//! Tokens that may only use tools, and not the HTTP API.
//!
//! The file has one token per line: its name, the SHA-256 of the token in hexadecimal, as `sha256sum` prints it, and if it
//! expires, the time (RFC 3339).
//! Empty lines and lines that begin with `#` are skipped. The tokens themselves are stored nowhere.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::limits;

/// Named tokens. Cheap to clone.
#[derive(Clone, Default)]
pub struct ToolTokens(Arc<[ToolToken]>);

struct ToolToken {
    name: String,
    digest: [u8; 32],
    /// From then on it is not valid.
    expires: Option<Timestamp>,
}

impl ToolTokens {
    /// Parses the content of a file. The error names the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tokens: Vec<ToolToken> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let token = parse_line(line).map_err(|problem| format!("line {number} {problem}"))?;
            if tokens.iter().any(|known| known.name == token.name || known.digest == token.digest) {
                return Err(format!("line {number} repeats the name or the token of an earlier line"));
            }
            tokens.push(token);
        }
        if tokens.len() > limits::MAX_TOOL_TOKENS {
            return Err(format!("must have at most {} tokens", limits::MAX_TOOL_TOKENS));
        }
        Ok(Self(tokens.into()))
    }

    /// Name of a token that is valid at a time. How long this takes does not depend on which token it is.
    pub fn name_of(&self, given: &[u8], now: Timestamp) -> Option<&str> {
        let digest = Sha256::digest(given);
        let mut found = None;
        for token in self.0.iter() {
            if bool::from(digest[..].ct_eq(&token.digest)) {
                found = Some(token);
            }
        }
        let valid = found.filter(|token| token.expires.is_none_or(|expires| now < expires));
        valid.filter(|_| !given.is_empty()).map(|token| token.name.as_str())
    }
}

fn parse_line(line: &str) -> Result<ToolToken, String> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(digest), expires, None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("must be a name, the SHA-256 of a token, and optionally when it expires".to_owned());
    };
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.len() > limits::MAX_TOOL_TOKEN_NAME_BYTES || !name.bytes().all(is_valid) {
        let limit = limits::MAX_TOOL_TOKEN_NAME_BYTES;
        return Err(format!("must begin with a name of at most {limit} letters, digits, `-`, `_` and `.`"));
    }
    if RESERVED.contains(&name) {
        return Err(format!("must not use the name `{name}`, which has a namespace of its own"));
    }
    let byte = |at: usize| u8::from_str_radix(digest.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digest.len()).step_by(2).map(byte).collect();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    let digest =
        bytes.ok_or("must have 64 hexadecimal digits after the name: `printf %s TOKEN | sha256sum`")?;
    let expires = expires.map(str::parse).transpose();
    let expires = expires.map_err(|_| "must end with a time such as `2027-01-31T12:00:00Z`")?;
    Ok(ToolToken { name: name.to_owned(), digest, expires })
}

/// Name of the admin token where tokens are named. Its sandboxes are in the namespace of this name.
pub const ADMIN: &str = "admin";

/// Namespaces that no token may use: the admin token's, and those of the processes of `sandboxd mcp`.
const RESERVED: [&str; 3] = [ADMIN, "stdio", "stdio-secrets"];

impl fmt::Debug for ToolTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|token| &token.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf %s secret | sha256sum`
    const SECRET: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    #[test]
    fn a_token_is_found_by_its_digest() {
        let tokens = ToolTokens::parse(&format!("# laptop\n\n ann-laptop  {SECRET} \n")).unwrap();
        assert_eq!(tokens.name_of(b"secret", Timestamp::UNIX_EPOCH), Some("ann-laptop"));
        for other in [&b"Secret"[..], b"", SECRET.as_bytes()] {
            assert_eq!(tokens.name_of(other, Timestamp::UNIX_EPOCH), None);
        }
        assert_eq!(format!("{tokens:?}"), r#"["ann-laptop"]"#);
        assert_eq!(ToolTokens::default().name_of(b"secret", Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn a_token_is_not_valid_after_its_time() {
        let tokens = ToolTokens::parse(&format!("ann {SECRET} 2026-02-01T01:00:00+01:00")).unwrap();
        let name_at = |time: &str| tokens.name_of(b"secret", time.parse().unwrap());
        assert_eq!(name_at("2026-01-31T23:59:59.999Z"), Some("ann"));
        assert_eq!(name_at("2026-02-01T00:00:00Z"), None);
    }

    #[test]
    fn a_bad_line_is_named() {
        let problem = |text: &str| ToolTokens::parse(text).unwrap_err();
        assert!(problem("ann").starts_with("line 1 must be a name"));
        assert!(problem("\nann secret").starts_with("line 2 must have 64"));
        assert!(problem(&format!("ann {SECRET} tomorrow")).contains("must end with a time"));
        assert!(
            problem(&format!("ann {SECRET} 2026-02-01T00:00:00Z x")).starts_with("line 1 must be a name")
        );
        assert!(problem(&format!("a:b {SECRET}")).contains("must begin with a name"));
        assert!(problem(&format!("admin {SECRET}")).contains("`admin`"));
        assert!(problem(&format!("stdio {SECRET}")).contains("`stdio`"));
        assert!(problem(&format!("stdio-secrets {SECRET}")).contains("`stdio-secrets`"));
        assert!(problem(&format!("a {SECRET}\nb {SECRET}")).starts_with("line 2 repeats"));
        assert!(problem(&format!("a {}é", &SECRET[..62])).contains("64"));
    }
}

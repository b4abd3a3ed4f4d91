//! The first line that an agent sends on a connection it opened.
//!
//! `sandbox-agent <generation> <secret>\n`. It proves to sandboxd that the peer is the agent and not a command of the
//! same sandbox, which can reach the same socket. Any other input is hostile, so at most [`MAX_BYTES`] are read.

use std::fmt;

/// Maximum length of a greeting.
pub const MAX_BYTES: usize = 256;

const WORD: &str = "sandbox-agent";

/// Contents of the line.
#[derive(Clone, PartialEq, Eq)]
pub struct Greeting {
    /// See [`crate::GENERATION`].
    pub generation: u32,
    /// Secret that only sandboxd and this sandbox's agent know.
    pub secret: String,
}

impl Greeting {
    /// Returns the line with its newline.
    pub fn to_line(&self) -> String {
        format!("{WORD} {} {}\n", self.generation, self.secret)
    }

    /// Parses a line without its newline. Returns `None` if it is not a greeting.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let mut words = line.split(' ');
        let (word, generation, secret) = (words.next()?, words.next()?, words.next()?);
        if word != WORD || words.next().is_some() || secret.is_empty() {
            return None;
        }
        Some(Self { generation: generation.parse().ok()?, secret: secret.to_owned() })
    }
}

impl fmt::Debug for Greeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Greeting").field("generation", &self.generation).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_survives_a_round_trip() {
        let greeting = Greeting { generation: 7, secret: "abc123".into() };
        let line = greeting.to_line();
        assert_eq!(Greeting::parse(line.trim_end().as_bytes()), Some(greeting));
    }

    #[test]
    fn other_lines_are_not_greetings() {
        for line in [
            "",
            "GET / HTTP/1.1",
            "sandbox-agent",
            "sandbox-agent 1",
            "sandbox-agent 1 ",
            "sandbox-agent x secret",
            "sandbox-agent 1 secret more",
        ] {
            assert_eq!(Greeting::parse(line.as_bytes()), None, "{line:?}");
        }
        assert_eq!(Greeting::parse(&[0xff, 0xfe]), None);
    }

    #[test]
    fn debug_output_does_not_contain_the_secret() {
        let greeting = Greeting { generation: 1, secret: "hush".into() };
        assert!(!format!("{greeting:?}").contains("hush"));
    }
}

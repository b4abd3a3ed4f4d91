//! Why git did not clone, by what it and our script have said.
//!
//! Only lines that git begins with `fatal:` or `error:` are believed: those of the server begin with `remote:`. Their words are
//! git's for people, in its own language, and may change; what is not known any more is told as it is.

use secrecy::ExposeSecret;

use super::super::Error;
use super::super::script::Ran;
use super::{GitSeed, MAX_FILES};

/// What is repeated of git's words, in characters.
const MAX_SAID_CHARS: usize = 300;

impl GitSeed {
    pub(super) fn verdict(&self, ran: &Ran) -> Error {
        match ran.said.last().and_then(|line| line.strip_prefix("fail ")) {
            Some("revision") => return Error::NoRevision { revision: self.wanted().to_owned() },
            Some("empty") => return Error::EmptyRepository,
            Some("large") => return self.too_large(),
            _ => {}
        }
        let words: Vec<&str> = ran.complained.iter().filter_map(|line| own_words(line)).collect();
        let says =
            |phrases: &[&str]| words.iter().any(|line| phrases.iter().any(|phrase| line.contains(phrase)));
        let said = || self.said(&words, ran);
        if says(&["File too large", "signal 25"]) {
            self.too_large()
        } else if says(&["could not read Username", "could not read Password"]) {
            Error::NeedsCredentials
        } else if says(&["Authentication failed"]) {
            Error::CredentialsRefused { said: said() }
        } else if says(&["' not found"]) {
            Error::NoRepository
        } else if says(&UNREACHED) {
            Error::NotReached { said: said() }
        } else {
            Error::Git { said: said() }
        }
    }

    fn too_large(&self) -> Error {
        Error::RepositoryTooLarge { limit_bytes: self.max_bytes, limit_files: MAX_FILES }
    }

    /// The first of git's words: later ones are of programs that it took with it. Without the token, which a server could
    /// have sent back.
    fn said(&self, words: &[&str], ran: &Ran) -> String {
        let all = ran.complained.last().map(String::as_str);
        let mut said = words.first().copied().or(all).unwrap_or("no word of it").to_owned();
        if let Some(credentials) = &self.credentials {
            said = said.replace(credentials.token.expose_secret(), "***");
        }
        said.chars().take(MAX_SAID_CHARS).collect()
    }
}

/// Curl's and the network's ways to say so. The sandbox's proxy refuses with a status to `CONNECT`.
const UNREACHED: [&str; 10] = [
    "Could not resolve",
    "Failed to connect",
    "Couldn't connect",
    "Connection refused",
    "Connection reset",
    "timed out",
    "Operation too slow",
    "CONNECT tunnel failed",
    "returned error: 502",
    "returned error: 504",
];

fn own_words(line: &str) -> Option<&str> {
    line.strip_prefix("fatal: ").or_else(|| line.strip_prefix("error: "))
}

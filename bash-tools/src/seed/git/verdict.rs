//! Determines why a clone failed, from the messages of git and the script.
//!
//! Only lines that git begins with `fatal:` or `error:` are trusted. Lines from the server begin with `remote:`.
//! Git's messages are human-readable text and may change. An unknown message is reported unchanged.

use secrecy::ExposeSecret;

use super::super::Error;
use super::super::script::Finished;
use super::{GitSeed, MAX_FILES};

/// Maximum number of characters of git's message.
const MAX_MESSAGE_CHARS: usize = 300;

impl GitSeed {
    pub(super) fn verdict(&self, ran: &Finished) -> Error {
        match ran.stdout.last().and_then(|line| line.strip_prefix("fail ")) {
            Some("revision") => return Error::NoRevision { revision: self.wanted().to_owned() },
            Some("empty") => return Error::EmptyRepository,
            Some("large") => return self.too_large(),
            _ => {}
        }
        let words: Vec<&str> = ran.stderr.iter().filter_map(|line| own_message(line)).collect();
        let says =
            |phrases: &[&str]| words.iter().any(|line| phrases.iter().any(|phrase| line.contains(phrase)));
        let message = || self.message(&words, ran);
        if says(&["File too large", "signal 25"]) {
            self.too_large()
        } else if says(&["could not read Username", "could not read Password"]) {
            Error::NeedsCredentials
        } else if says(&["Authentication failed"]) {
            Error::CredentialsRefused { message: message() }
        } else if says(&["' not found"]) {
            Error::NoRepository
        } else if says(&UNREACHED) {
            Error::NotReached { message: message() }
        } else {
            Error::Git { message: message() }
        }
    }

    fn too_large(&self) -> Error {
        Error::RepositoryTooLarge { limit_bytes: self.max_bytes, limit_files: MAX_FILES }
    }

    /// The first message of git, because later ones come from its subprocesses. The token is removed, because a
    /// server could have sent it back.
    fn message(&self, words: &[&str], ran: &Finished) -> String {
        let all = ran.stderr.last().map(String::as_str);
        let mut message = words.first().copied().or(all).unwrap_or("git printed no message").to_owned();
        if let Some(credentials) = &self.credentials {
            message = message.replace(credentials.token.expose_secret(), "***");
        }
        message.chars().take(MAX_MESSAGE_CHARS).collect()
    }
}

/// Messages of curl and the network. The sandbox's proxy denies `CONNECT` with an error status.
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

fn own_message(line: &str) -> Option<&str> {
    line.strip_prefix("fatal: ").or_else(|| line.strip_prefix("error: "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::GitCredentials;
    use super::*;

    fn verdict(stderr: &[&str]) -> Error {
        let seed = GitSeed {
            url: "https://git.example/a".into(),
            revision: None,
            credentials: Some(GitCredentials::token("hunter2".into())),
            allow_http: false,
            timeout: Duration::from_secs(1),
            max_bytes: 7,
        };
        let stderr = stderr.iter().map(|line| (*line).to_owned()).collect();
        seed.verdict(&Finished { exit_code: 1, stdout: vec!["step fetching".into()], stderr })
    }

    #[test]
    fn a_servers_output_does_not_decide_the_error() {
        let remote = "remote: fatal: repository 'x' not found";
        assert!(
            matches!(verdict(&[remote, "fatal: early EOF"]), Error::Git { message } if message == "early EOF")
        );
        let refused =
            ["remote: Connection refused", "fatal: Authentication failed for 'https://git.example/a/'"];
        assert!(matches!(verdict(&refused), Error::CredentialsRefused { .. }));
    }

    #[test]
    fn a_token_that_a_server_sends_back_is_not_reported() {
        for line in ["fatal: remote error: you sent hunter2", "bash: hunter2: command not found"] {
            let error = verdict(&[line]);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
            assert!(error.to_string().contains("***"), "{error}");
        }
        let long = verdict(&[&format!("fatal: {}", "é".repeat(5000))]).to_string();
        assert!(long.chars().count() < MAX_MESSAGE_CHARS + 100, "{long}");
    }

    #[test]
    fn a_failure_without_output_is_reported_as_such() {
        assert!(matches!(verdict(&[]), Error::Git { message } if message == "git printed no message"));
    }
}

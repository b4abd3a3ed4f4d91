//! The digest by which a repeated request to start a command is told from another one with the same id.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{CommandSpec, Program};

/// SHA-256 of everything that a request says about a command, except its id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestDigest([u8; Self::BYTES]);

impl RequestDigest {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// The digest of a request. Call it before the sandbox's own environment is added.
    pub fn of(spec: &CommandSpec) -> Self {
        let mut fields = Fields(Sha256::new());
        match &spec.program {
            Program::Argv { program, args } => {
                fields.add(b"argv");
                fields.add(program.as_bytes());
                fields.count(args.len());
                args.iter().for_each(|arg| fields.add(arg.as_bytes()));
            }
            Program::Script(script) => {
                fields.add(b"script");
                fields.add(script.as_bytes());
            }
        }
        fields.add(spec.cwd.as_bytes());
        let mut env: Vec<_> = spec.env.iter().collect();
        env.sort();
        fields.count(env.len());
        for (name, value) in env {
            fields.add(name.as_bytes());
            fields.add(value.as_bytes());
        }
        fields.count(usize::from(spec.stdin.is_some()));
        fields.add(spec.stdin.as_deref().unwrap_or_default());
        fields.add(&[u8::from(spec.open_stdin), u8::from(spec.read_only), u8::from(spec.detached)]);
        fields.add(&(spec.timeout.as_millis() as u64).to_le_bytes());
        Self(fields.0.finalize().into())
    }

    /// Reads a digest; `None` if it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Only the first bytes: enough to tell two apart in a log.
impl fmt::Debug for RequestDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, third, fourth, ..] = self.0;
        write!(f, "RequestDigest({first:02x}{second:02x}{third:02x}{fourth:02x})")
    }
}

/// Each field comes after its length, so that no two lists of fields look the same.
struct Fields(Sha256);

impl Fields {
    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_le_bytes());
    }

    fn add(&mut self, field: &[u8]) {
        self.count(field.len());
        self.0.update(field);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    fn spec() -> CommandSpec {
        CommandSpec {
            id: "cmd_0123456789abcdef".parse().unwrap(),
            digest: None,
            program: Program::Argv { program: "echo".into(), args: vec!["a".into(), "b".into()] },
            cwd: "src".into(),
            env: HashMap::from([("A".into(), "1".into()), ("B".into(), "2".into())]),
            stdin: None,
            open_stdin: false,
            read_only: false,
            timeout: Duration::from_secs(30),
            detached: false,
        }
    }

    #[test]
    fn the_same_request_has_the_same_digest_under_any_id() {
        let again = CommandSpec { id: "cmd_another123456789".parse().unwrap(), ..spec() };
        assert_eq!(RequestDigest::of(&spec()), RequestDigest::of(&again));
    }

    #[test]
    fn every_field_counts() {
        let argv = |args: &[&str]| Program::Argv {
            program: "echo".into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        };
        let others = [
            CommandSpec { program: argv(&["ab"]), ..spec() },
            CommandSpec { program: argv(&["a", "b", ""]), ..spec() },
            CommandSpec { program: Program::Script("echo a b".into()), ..spec() },
            CommandSpec { cwd: String::new(), ..spec() },
            CommandSpec { env: HashMap::from([("A".into(), "1".into())]), ..spec() },
            CommandSpec { stdin: Some(Bytes::new()), ..spec() },
            CommandSpec { stdin: Some(Bytes::from_static(b"in")), ..spec() },
            CommandSpec { open_stdin: true, ..spec() },
            CommandSpec { read_only: true, ..spec() },
            CommandSpec { detached: true, ..spec() },
            CommandSpec { timeout: Duration::from_secs(31), ..spec() },
        ];
        let digests: Vec<_> = others.iter().chain([&spec()]).map(RequestDigest::of).collect();
        for (at, digest) in digests.iter().enumerate() {
            assert_eq!(digests.iter().position(|other| other == digest), Some(at), "{:?}", others.get(at));
        }
    }
}

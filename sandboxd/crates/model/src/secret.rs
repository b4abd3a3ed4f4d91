//! Values that must not be shown.

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;

use sandbox_api::StringMap;

use super::{FieldError, SandboxSpec};

/// Length of a secret value in bytes. A shorter one would be found in words that are not secret.
pub const SECRET_BYTES: RangeInclusive<usize> = 8..=4096;

/// A value that must not be shown. `[name]` is shown in its place.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Name of its variable.
    pub name: String,
    /// The value.
    pub value: String,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.name)
    }
}

impl SandboxSpec {
    /// The values of the secret variables.
    pub fn secrets(&self) -> Vec<Secret> {
        let secret = |name: &String| {
            let value = self.env.get(name)?.clone();
            Some(Secret { name: name.clone(), value })
        };
        self.secret_env.iter().filter_map(secret).collect()
    }

    /// The values that a program with these variables of its own must not show: those of the secret variables, and its
    /// own values of the same names, where they are long enough.
    pub fn secrets_beside(&self, own: &HashMap<String, String>) -> Vec<Secret> {
        let own_value = |name: &String| {
            let value = own.get(name).filter(|value| SECRET_BYTES.contains(&value.len()))?.clone();
            Some(Secret { name: name.clone(), value })
        };
        self.secret_env.iter().filter_map(own_value).chain(self.secrets()).collect()
    }
}

/// Checks which variables of `env` are secret, and sorts them. An error names no value.
pub fn secret_env(mut given: Vec<String>, env: &StringMap) -> Result<Vec<String>, FieldError> {
    given.sort();
    given.dedup();
    for name in &given {
        let Some(value) = env.get(name) else {
            return Err(FieldError::new("secretEnv", format!("names `{name}`, which is not in `env`")));
        };
        if !SECRET_BYTES.contains(&value.len()) {
            let (least, most) = (SECRET_BYTES.start(), SECRET_BYTES.end());
            let problem = format!("names `{name}`, whose value must be {least} to {most} bytes long");
            return Err(FieldError::new("secretEnv", problem));
        }
    }
    Ok(given)
}

/// Replaces secret values in a text.
pub fn redacted(text: &str, secrets: &[Secret]) -> String {
    let mut shown = text.to_owned();
    for secret in longest_first(secrets) {
        shown = shown.replace(&secret.value, &format!("[{}]", secret.name));
    }
    shown
}

/// A value may contain another one.
fn longest_first(secrets: &[Secret]) -> Vec<&Secret> {
    let mut longest_first: Vec<&Secret> = secrets.iter().collect();
    longest_first.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
    longest_first
}

/// Replaces secret values in the name of a host, which has no upper case.
pub fn redacted_host(host: &str, secrets: &[Secret]) -> String {
    let mut shown = host.to_owned();
    for secret in longest_first(secrets) {
        let replacement = format!("[{}]", secret.name);
        for value in [secret.value.clone(), secret.value.to_ascii_lowercase()] {
            shown = shown.replace(&value, &replacement);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_shows_no_value_in_either_case() {
        let secret = |name: &str, value: &str| Secret { name: name.into(), value: value.into() };
        let secrets = [secret("KEY", "Sk-012345"), secret("LONG", "Sk-0123456789")];
        assert_eq!(redacted_host("a.sk-012345.example", &secrets), "a.[KEY].example");
        assert_eq!(redacted_host("Sk-0123456789", &secrets), "[LONG]");
        assert_eq!(redacted_host("a.example", &secrets), "a.example");
    }
}

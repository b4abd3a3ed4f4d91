//! Credentials for Vercel.
//!
//! Either a token with its team and project, or a token of Vercel's OIDC issuer, which names both. The OIDC token is
//! read but not verified, because Vercel verifies it. It cannot be renewed here, so its expiry is reported as an
//! error.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

const TOKEN: [&str; 2] = ["VERCEL_TOKEN", "VERCEL_API_KEY"];
const TEAM: [&str; 2] = ["VERCEL_TEAM_ID", "VERCEL_ORG_ID"];
const PROJECT: [&str; 1] = ["VERCEL_PROJECT_ID"];
const OIDC_TOKEN: &str = "VERCEL_OIDC_TOKEN";

/// Credentials for Vercel. Their `Debug` form does not print the token.
#[derive(Debug, Clone)]
pub struct Credentials {
    token: SecretString,
    pub(super) team: String,
    pub(super) project: String,
    expires_at: Option<SystemTime>,
}

/// Why there are no credentials. No message contains any part of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadCredentials {
    /// No variable is set.
    #[error("set VERCEL_OIDC_TOKEN, or VERCEL_TOKEN with VERCEL_TEAM_ID and VERCEL_PROJECT_ID")]
    Missing,
    /// Only some of the variables that belong together are set.
    #[error("{missing} is not set, and VERCEL_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID belong together")]
    Incomplete {
        /// First missing variable.
        missing: &'static str,
    },
    /// The token contains characters that a header cannot.
    #[error("the Vercel token has characters that cannot be sent in a header")]
    NotAHeader,
    /// The OIDC token is malformed.
    #[error("VERCEL_OIDC_TOKEN is not a JWT that names `owner_id` and `project_id`")]
    NotOidc,
    /// The OIDC token has expired.
    #[error("VERCEL_OIDC_TOKEN expired {} minutes ago: get a new one with `vercel env pull`", .ago.as_secs() / 60)]
    Expired {
        /// How long ago it expired.
        ago: Duration,
    },
}

impl BadCredentials {
    /// Environment variable that must be corrected.
    pub fn variable(&self) -> &'static str {
        match self {
            Self::Missing | Self::NotOidc | Self::Expired { .. } => OIDC_TOKEN,
            Self::Incomplete { missing } => missing,
            Self::NotAHeader => TOKEN[0],
        }
    }
}

/// Fields that are read from an OIDC token.
#[derive(Deserialize)]
struct Claims {
    owner_id: String,
    project_id: String,
    /// Seconds since 1970.
    exp: Option<u64>,
}

impl Credentials {
    /// Creates credentials from a token with its team and project.
    pub fn new(token: SecretString, team: String, project: String) -> Result<Self, BadCredentials> {
        for (value, missing) in
            [(token.expose_secret(), TOKEN[0]), (team.as_str(), TEAM[0]), (project.as_str(), PROJECT[0])]
        {
            if value.trim().is_empty() {
                return Err(BadCredentials::Incomplete { missing });
            }
        }
        Self::checked(token, team, project, None)
    }

    /// Creates credentials from a token of Vercel's OIDC issuer that has not expired.
    pub fn oidc(token: SecretString) -> Result<Self, BadCredentials> {
        let claims = Claims::of(token.expose_secret()).ok_or(BadCredentials::NotOidc)?;
        let expires_at = claims.exp.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        let credentials = Self::checked(token, claims.owner_id, claims.project_id, expires_at)?;
        match credentials.expired() {
            Some(ago) => Err(BadCredentials::Expired { ago }),
            None => Ok(credentials),
        }
    }

    /// Reads credentials from an environment. `look` returns a variable by name: `VERCEL_TOKEN` or `VERCEL_API_KEY`,
    /// `VERCEL_TEAM_ID` or `VERCEL_ORG_ID`, and `VERCEL_PROJECT_ID`; or else `VERCEL_OIDC_TOKEN`. A blank variable
    /// counts as unset.
    pub fn from_lookup(look: impl Fn(&str) -> Option<String>) -> Result<Self, BadCredentials> {
        let value = |name: &&str| look(name).map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
        let [token, team, project] =
            [&TOKEN[..], &TEAM[..], &PROJECT[..]].map(|names| names.iter().find_map(value));
        match (token, team, project, value(&OIDC_TOKEN)) {
            (Some(token), Some(team), Some(project), _) => Self::new(token.into(), team, project),
            (_, _, _, Some(oidc)) => Self::oidc(oidc.into()),
            (None, None, None, None) => Err(BadCredentials::Missing),
            (None, _, _, None) => Err(BadCredentials::Incomplete { missing: TOKEN[0] }),
            (_, None, _, None) => Err(BadCredentials::Incomplete { missing: TEAM[0] }),
            (_, _, None, None) => Err(BadCredentials::Incomplete { missing: PROJECT[0] }),
        }
    }

    fn checked(
        token: SecretString,
        team: String,
        project: String,
        expires_at: Option<SystemTime>,
    ) -> Result<Self, BadCredentials> {
        let credentials = Self { token, team, project, expires_at };
        credentials.authorization().map(|_| credentials).ok_or(BadCredentials::NotAHeader)
    }

    /// Value of the header. Its `Debug` form does not print the token either.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.token.expose_secret())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// How long ago the credentials expired, if they have.
    pub(super) fn expired(&self) -> Option<Duration> {
        SystemTime::now().duration_since(self.expires_at?).ok()
    }

    /// Removes the token from a message of Vercel.
    pub(super) fn redact(&self, text: &str) -> String {
        text.replace(self.token.expose_secret(), "[the token]")
    }
}

impl Claims {
    fn of(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
        let claims: Self = serde_json::from_slice(&payload).ok()?;
        (!claims.owner_id.is_empty() && !claims.project_id.is_empty()).then_some(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oidc(claims: &str) -> String {
        format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims))
    }

    fn read(set: &[(&str, &str)]) -> Result<(String, String), BadCredentials> {
        let look = |name: &str| set.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
        Credentials::from_lookup(look).map(|it| (it.team, it.project))
    }

    fn both(team: &str, project: &str) -> Result<(String, String), BadCredentials> {
        Ok((team.to_owned(), project.to_owned()))
    }

    #[test]
    fn credentials_are_three_variables_or_an_oidc_token() {
        let three = [("VERCEL_TOKEN", "t"), ("VERCEL_TEAM_ID", "team"), ("VERCEL_PROJECT_ID", "prj")];
        assert_eq!(read(&three), both("team", "prj"));
        let others = [("VERCEL_API_KEY", "t"), ("VERCEL_ORG_ID", "org"), ("VERCEL_PROJECT_ID", "prj")];
        assert_eq!(read(&others), both("org", "prj"));
        let token = oidc(r#"{"owner_id":"o","project_id":"p","exp":99999999999}"#);
        assert_eq!(read(&[("VERCEL_OIDC_TOKEN", &token)]), both("o", "p"));
        assert_eq!(read(&[("VERCEL_OIDC_TOKEN", &token), ("VERCEL_PROJECT_ID", "prj")]), both("o", "p"));
        assert_eq!(read(&[three[0], three[1], three[2], ("VERCEL_OIDC_TOKEN", &token)]), both("team", "prj"));
    }

    #[test]
    fn a_missing_key_is_named() {
        assert_eq!(read(&[]), Err(BadCredentials::Missing));
        let (token, team, project) =
            (("VERCEL_TOKEN", "t"), ("VERCEL_TEAM_ID", "team"), ("VERCEL_PROJECT_ID", "prj"));
        for (set, missing) in [
            ([team, project], "VERCEL_TOKEN"),
            ([token, project], "VERCEL_TEAM_ID"),
            ([token, team], "VERCEL_PROJECT_ID"),
            ([token, ("VERCEL_TEAM_ID", "  ")], "VERCEL_TEAM_ID"),
        ] {
            assert_eq!(read(&set), Err(BadCredentials::Incomplete { missing }), "{set:?}");
        }
    }

    #[test]
    fn an_oidc_token_must_be_valid() {
        let project = r#"{"owner_id":"o","exp":99999999999}"#;
        for bad in [
            "opaque",
            "a.b.c",
            "..",
            &oidc("[]"),
            &oidc(project),
            &oidc(r#"{"owner_id":"","project_id":""}"#),
        ] {
            assert_eq!(read(&[("VERCEL_OIDC_TOKEN", bad)]), Err(BadCredentials::NotOidc), "{bad}");
        }
        let old = oidc(r#"{"owner_id":"o","project_id":"p","exp":1000}"#);
        let expired = read(&[("VERCEL_OIDC_TOKEN", &old)]).unwrap_err();
        assert!(matches!(expired, BadCredentials::Expired { .. }), "{expired:?}");
        assert!(expired.to_string().contains("vercel env pull"), "{expired}");
    }

    #[test]
    fn a_token_is_never_printed() {
        let credentials = Credentials::new("s3cret-t0ken".into(), "team".into(), "prj".into()).unwrap();
        let printed = format!("{credentials:?} {:?}", credentials.authorization());
        assert!(!printed.contains("s3cret"), "{printed}");
        assert_eq!(credentials.redact("bad token s3cret-t0ken!"), "bad token [the token]!");
        let bad = Credentials::new("s3cret\n".into(), "team".into(), "prj".into()).unwrap_err();
        assert_eq!(bad, BadCredentials::NotAHeader);
    }
}

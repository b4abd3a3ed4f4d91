//! Whom a token stands for.

use std::time::{SystemTime, UNIX_EPOCH};

use sandboxd_model::jwt::JwtSettings;
use sandboxd_model::{ProjectName, Scopes, Subject, limits};
use serde_json::{Map, Value};

/// Milliseconds of a second.
const SECOND: f64 = 1000.0;

/// Whom a verified token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The project. It may not exist.
    pub project: ProjectName,
    /// The person or program.
    pub subject: Subject,
    /// What the token permits.
    pub scopes: Scopes,
    /// When the token was issued, in milliseconds since the Unix epoch. 0 if it does not say.
    pub issued_at_ms: i64,
    /// From when on it is not valid, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

impl Identity {
    /// Reads the claims. The error says what is wrong with them.
    pub(crate) fn of(claims: &Map<String, Value>, settings: &JwtSettings) -> Result<Self, String> {
        let subject = text(claims, &settings.subject_claim)?;
        let project = match &settings.project_claim {
            Some(name) => {
                text(claims, name)?.parse().map_err(|error| format!("the claim `{name}`: {error}"))?
            }
            None => settings.project.clone(),
        };
        let leeway = limits::JWT_LEEWAY.as_millis() as i64;
        let expires_at_ms = time(claims, "exp")?.ok_or("it does not expire")?.saturating_add(leeway);
        Ok(Self {
            project,
            subject: subject
                .parse()
                .map_err(|error| format!("the claim `{}`: {error}", settings.subject_claim))?,
            scopes: settings.scopes,
            issued_at_ms: issued_at(claims)?,
            expires_at_ms,
        })
    }
}

fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    claims.get(name).and_then(Value::as_str).ok_or_else(|| format!("the claim `{name}` is not a text"))
}

/// When it was issued. A time in the future would survive the revocation of its subject.
fn issued_at(claims: &Map<String, Value>) -> Result<i64, String> {
    let issued_at_ms = time(claims, "iat")?.unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match issued_at_ms > (now + limits::JWT_LEEWAY).as_millis() as i64 {
        true => Err("it was issued in the future".into()),
        false => Ok(issued_at_ms),
    }
}

/// A time in seconds, perhaps with a fraction (RFC 7519 section 2), in milliseconds.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, String> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().ok_or_else(|| format!("the claim `{name}` is not a number"))?;
    // A number out of range becomes the nearest one that is not.
    Ok(Some((seconds * SECOND) as i64))
}

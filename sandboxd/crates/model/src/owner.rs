//! Whom sandboxes and snapshots belong to.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::FieldError;

/// Maximum length of a project's name in bytes.
pub const MAX_PROJECT_BYTES: usize = 63;

/// Maximum length of a subject in bytes.
pub const MAX_SUBJECT_BYTES: usize = 256;

/// Name of a project: 1 to [`MAX_PROJECT_BYTES`] lower-case letters, digits and `-`, without a `-` at either end (a label
/// of RFC 1123). Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProjectName(Arc<str>);

/// A person or a program of a project: 1 to [`MAX_SUBJECT_BYTES`] visible ASCII characters. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject(Arc<str>);

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRecord {
    /// Its name.
    pub name: ProjectName,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
}

/// Tokens of a subject that end, besides the tokens of its project, which are revoked one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedSubject {
    /// The project.
    pub project: ProjectName,
    /// The subject.
    pub subject: Subject,
    /// JSON Web Tokens and child tokens that were issued until this time are not valid, in milliseconds since the Unix epoch.
    pub until_ms: i64,
}

/// Whom a sandbox or a snapshot belongs to. Session keys are unique within an owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The project.
    pub project: ProjectName,
    /// Its subject. `None` for what was created with a token that is for the whole project.
    pub subject: Option<Subject>,
}

impl Owner {
    /// Whether a principal of this owner can see what belongs to `other`: everything of the project if it has no subject,
    /// or else what belongs to its subject.
    pub fn covers(&self, other: &Self) -> bool {
        self.project == other.project && (self.subject.is_none() || self.subject == other.subject)
    }
}

impl ProjectName {
    /// Name of the project of the operator's token, and of everything from before there were projects.
    pub const DEFAULT: &str = "default";

    /// Name of the project that the snapshots of fetched repositories belong to. No principal has it.
    pub const REPOSITORIES: &str = "sandboxd-repositories";

    /// Name of the project that the snapshots of resolved packages belong to. No principal has it.
    pub const PACKAGES: &str = "sandboxd-packages";

    /// Name of the project that sandboxes belong to until a session gets them. No principal has it.
    pub const POOL: &str = "sandboxd-pool";

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The project that sandboxes belong to until a session gets them.
    pub fn pool() -> Self {
        Self(Self::POOL.into())
    }

    /// The project that the snapshots of resolved packages belong to.
    pub fn packages() -> Self {
        Self(Self::PACKAGES.into())
    }

    /// The project that the snapshots of fetched repositories belong to.
    pub fn repositories() -> Self {
        Self(Self::REPOSITORIES.into())
    }

    /// Whether the daemon uses it for itself.
    pub fn is_reserved(&self) -> bool {
        matches!(self.as_str(), Self::REPOSITORIES | Self::PACKAGES | Self::POOL)
    }

    /// Whether it is the operator's project.
    pub fn is_default(&self) -> bool {
        self.as_str() == Self::DEFAULT
    }
}

impl Default for ProjectName {
    fn default() -> Self {
        Self(Self::DEFAULT.into())
    }
}

impl FromStr for ProjectName {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name = (1..=MAX_PROJECT_BYTES).contains(&text.len())
            && text.bytes().all(is_inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        let problem = || {
            format!(
                "must be 1 to {MAX_PROJECT_BYTES} lower-case letters, digits and `-`, without a `-` at either end"
            )
        };
        if is_name { Ok(Self(text.into())) } else { Err(FieldError::new("project", problem())) }
    }
}

impl fmt::Display for ProjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Subject {
    /// The subject as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Subject {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let is_subject =
            (1..=MAX_SUBJECT_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_subject {
            return Ok(Self(text.into()));
        }
        Err(FieldError::new("subject", format!("must be 1 to {MAX_SUBJECT_BYTES} visible ASCII characters")))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_the_name_of_a_dns_label() {
        for name in ["default", "a", "team-7", &"p".repeat(MAX_PROJECT_BYTES)] {
            assert_eq!(name.parse::<ProjectName>().unwrap().as_str(), name);
        }
        for name in ["", "-a", "a-", "A", "a.b", "a b", "ä", &"p".repeat(MAX_PROJECT_BYTES + 1)] {
            let error = name.parse::<ProjectName>().unwrap_err();
            assert!(error.to_string().starts_with("`project` must be 1 to 63"), "{name:?}: {error}");
        }
        assert!(ProjectName::default().is_default());
    }

    #[test]
    fn a_subject_is_visible_ascii() {
        for subject in ["ann@example.com", "auth0|5f7c8ec7c33c6c004bbafe82", &"s".repeat(MAX_SUBJECT_BYTES)] {
            assert_eq!(subject.parse::<Subject>().unwrap().as_str(), subject);
        }
        for subject in ["", "a b", "a\n", "ä", &"s".repeat(MAX_SUBJECT_BYTES + 1)] {
            assert!(subject.parse::<Subject>().is_err(), "{subject:?}");
        }
    }
}

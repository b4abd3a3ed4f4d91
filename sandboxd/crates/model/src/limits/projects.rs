//! Limits of projects and their tokens.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Maximum number of projects.
pub const MAX_PROJECTS: usize = 10_000;

/// Maximum number of tokens of a project, without those that have expired.
pub const MAX_TOKENS: usize = 1_000;

/// Maximum length of the name of a token in characters.
pub const MAX_TOKEN_NAME: usize = 200;

/// How long a token is valid, in milliseconds: a second to ten years.
pub const TOKEN_TTL_MS: RangeInclusive<u64> = 1_000..=10 * 365 * 24 * 60 * 60 * 1000;

/// How long a child token is valid, in milliseconds: a second to a day.
pub const CHILD_TOKEN_TTL_MS: RangeInclusive<u64> = 1_000..=24 * 60 * 60 * 1000;

/// How long a child token is valid if the request does not say.
pub const DEFAULT_CHILD_TOKEN_TTL: Duration = Duration::from_secs(60 * 60);

/// Maximum length of a child token in bytes. Its parts are bounded, so none is longer.
pub const MAX_CHILD_TOKEN_BYTES: usize = 2_048;

/// How long a ticket is valid.
pub const TICKET_TTL: Duration = Duration::from_secs(30);

/// Random bytes of a ticket.
pub const TICKET_BYTES: usize = 24;

/// Maximum number of unused tickets of an owner.
pub const MAX_OWN_TICKETS: usize = 100;

/// Maximum number of unused tickets of a project.
pub const MAX_PROJECT_TICKETS: usize = 1_000;

/// Maximum number of unused tickets of all projects.
pub const MAX_TICKETS: usize = 10_000;

/// Maximum length of the path that a ticket is for, in bytes.
pub const MAX_TICKET_PATH_BYTES: usize = 1_024;

/// Projects or tokens of a page if the request does not say how many.
pub const DEFAULT_PROJECT_PAGE: u32 = 100;

/// Maximum number of projects or tokens of a page.
pub const MAX_PROJECT_PAGE: u32 = 1_000;

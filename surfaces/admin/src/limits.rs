//! Limits of the admin page.

use std::time::Duration;

/// Maximum number of sessions. If there are more, the one that was used least recently ends.
pub(crate) const MAX_SESSIONS: usize = 256;

/// Maximum number of sessions of one token, so that one token cannot end the sessions of all others.
pub(crate) const MAX_SESSIONS_OF_TOKEN: usize = 16;

/// Time without a request after which a session ends.
pub(crate) const IDLE: Duration = Duration::from_secs(30 * 60);

/// Time after which a session ends, however it is used.
pub(crate) const AGE: Duration = Duration::from_secs(12 * 60 * 60);

/// Maximum number of forms that a session remembers as sent.
pub(crate) const MAX_SENT_FORMS: usize = 64;

/// Maximum length of a form's body in bytes.
pub(crate) const MAX_FORM_BYTES: usize = 64 * 1024;

/// Maximum number of fields in a form.
pub(crate) const MAX_FIELDS: usize = 64;

/// Time in which the body of a form must arrive.
pub(crate) const FORM: Duration = Duration::from_secs(30);

/// Maximum length of a token in bytes. JSON Web Tokens are the longest.
pub(crate) const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// Maximum number of characters of a text from outside in a cell of a table.
pub(crate) const MAX_CELL_CHARS: usize = 160;

/// Maximum number of characters of a text from outside that is the subject of a page.
pub(crate) const MAX_TEXT_CHARS: usize = 2000;

/// Maximum number of sandboxes whose denials one page asks for.
pub(crate) const MAX_DENIAL_REQUESTS: usize = 20;

/// Number of days in a plot.
pub(crate) const PLOT_DAYS: usize = 30;

/// Number of rows of a long list on one page.
pub(crate) const PAGE_ROWS: u32 = 50;

/// Maximum number of pages of a project's tokens that are searched for one. A project has at most 1,000, in pages of 100.
pub(crate) const MAX_TOKEN_PAGES: usize = 10;

/// Number of commands on the page of a sandbox.
pub(crate) const SHOWN_COMMANDS: u32 = 20;

/// Number of sandboxes that are counted for the overview.
pub(crate) const MAX_COUNTED: u32 = 1000;

/// Number of lines of the audit record that are read for a number of the overview.
pub(crate) const MAX_COUNTED_LINES: u32 = 1000;

/// Number of acts on the overview.
pub(crate) const SHOWN_ACTS: u32 = 10;

//! Limits of the store and its history.

use std::time::Duration;

/// Time that the store waits for another program that has locked its database.
pub const STORE_BUSY: Duration = Duration::from_secs(5);

/// Bytes of a command's program and arguments that the store keeps.
pub const MAX_RECORDED_PROGRAM_BYTES: usize = 4096;

/// Number of commands of one sandbox that the store keeps, the newest ones.
pub const MAX_RECORDED_COMMANDS: usize = 1000;

/// Number of ended commands of one sandbox that its history keeps, the newest ones, whatever their age.
pub const MAX_ENDED_COMMANDS: usize = 5000;

/// Commands of a page of the history if the request does not say how many.
pub const DEFAULT_HISTORY_PAGE: u32 = 100;

/// Maximum number of commands of a page of the history.
pub const MAX_HISTORY_PAGE: u32 = 1000;

/// Time for which the store keeps a command that has ended.
pub const RECORDED_COMMAND_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum length of the history's queue. Further entries are dropped and counted, because the history never delays
/// a command.
pub const MAX_UNWRITTEN_COMMANDS: usize = 4096;

/// Pages of an agent's list of commands that are recorded at once: enough for all commands that an agent keeps.
pub const MAX_COMMAND_PAGES: usize = 80;

/// Time to record the commands of one sandbox from its agent's list.
pub const RECORD_COMMANDS: Duration = Duration::from_secs(10);

/// Time that a reader of the history waits for its queue to be written.
pub const HISTORY_FLUSH: Duration = Duration::from_secs(2);

/// How long the history collects entries before it writes them. A daemon that is killed loses them, and the next one gets
/// them from the agents.
pub const HISTORY_PAUSE: Duration = Duration::from_millis(50);

/// Pause before the history is written again if the store is unavailable.
pub const HISTORY_RETRY: Duration = Duration::from_secs(1);

/// Interval between trims of the history.
pub const TRIM_EVERY: Duration = Duration::from_secs(3600);

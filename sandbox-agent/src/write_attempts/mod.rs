//! Notices the first write that a read-only command was refused.
//!
//! Landlock refuses a write and reports that only to the caller. A seccomp filter therefore makes the kernel announce each
//! attempt to write before it happens (seccomp_unotify(2)). The agent reads what is attempted and where, notes the
//! first one that Landlock is going to refuse, and always lets the call continue. So the notes are only information: a
//! process can mislead them by changing a path meanwhile, but it gains nothing, because Landlock alone decides.
//!
//! What is not noticed: attempts through links of `/proc`, and those of processes that do not let the agent read their
//! memory. Calls with no effect, such as `mkdir` of what exists, are not refused and not noted.

mod attempt;
mod filter;
mod listener;
mod refusal;

pub(crate) use self::filter::install;
pub(crate) use self::listener::Listener;

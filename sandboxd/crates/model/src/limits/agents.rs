//! Limits of connections to agents.

use std::time::Duration;

/// Time that a new container's agent may take to respond.
pub const AGENT_FIRST_ANSWER: Duration = Duration::from_secs(20);

/// Time that an agent may be disconnected before a request for it fails.
pub const AGENT_ABSENCE: Duration = Duration::from_secs(5);

/// Time that a connection on an agent's socket may take to send its greeting.
pub const GREETING: Duration = Duration::from_secs(5);

/// Number of processes that an agent keeps for the next command. A sandbox has them beside its own.
pub const SHELL_PROCESSES: u32 = 2;

/// Time for a short call to an agent.
pub const AGENT_CALL: Duration = Duration::from_secs(30);

/// Time that the engine and the agent may take to report the usage of a sandbox. The response is then sent without
/// it.
pub const USAGE: Duration = Duration::from_secs(2);

/// Time for a broken connection to come back, or for the engine to report the cause, before both are asked again.
pub const RECHECK: Duration = Duration::from_millis(250);

/// Maximum length of a process name that an agent reports, in bytes. Longer names are cut.
pub const MAX_PROCESS_NAME_BYTES: usize = 64;

/// Maximum number of listening sockets that an agent may report.
pub const MAX_LISTENING: usize = 256;

/// Time that an agent may take to connect to a port of its sandbox, or to hand over an outbound connection.
/// Somewhat longer than the agent's own limits.
pub const TUNNEL_OPEN: Duration = Duration::from_secs(15);

/// Time for the last bytes of a tunnel whose two directions have ended and whose holder has left. The agent gives
/// them less.
pub const TUNNEL_CLOSE: Duration = Duration::from_secs(45);

/// Parts written to a tunnel that may wait to be sent.
pub const TUNNEL_PARTS: usize = 2;

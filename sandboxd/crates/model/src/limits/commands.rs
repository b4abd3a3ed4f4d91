//! Limits of commands.

use std::time::Duration;

use sandbox_api::limits as shared;

/// Time limit of a command if the caller sets none.
pub const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_millis(shared::DEFAULT_COMMAND_TIMEOUT_MS);

/// Shortest time limit of a command.
pub const MIN_COMMAND_TIMEOUT: Duration = Duration::from_millis(shared::MIN_COMMAND_TIMEOUT_MS);

/// Time limit of a passive command, and its maximum.
pub const MAX_PASSIVE_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum length of a script in bytes.
pub const MAX_SCRIPT_BYTES: usize = 8 * 1024 * 1024;

/// Maximum length of standard input in the request for a command, in bytes.
pub const MAX_STDIN_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of writers to standard input of one sandbox's commands. Further writers are rejected.
pub const MAX_WRITERS: usize = 32;

/// Bytes for standard input that one writer may have in flight. All writers of a sandbox together stay below the
/// window of its connection, which other calls share.
pub const STDIN_WINDOW_BYTES: u64 = 128 * 1024;

/// Parts for standard input that one writer may have in flight.
pub const STDIN_PARTS: usize = 16;

/// Time within which the agent must report progress. It gives the command less time to read, and reports if the
/// command does not.
pub const STDIN_ANSWER: Duration = Duration::from_secs(45);

/// Time that a writer to standard input may send nothing. Meanwhile no other client can write to it.
pub const STDIN_SILENCE: Duration = Duration::from_secs(5 * 60);

/// Maximum number of commands in a batch.
pub const MAX_BATCH_COMMANDS: usize = 50;

/// Maximum number of commands of a batch that run at the same time.
pub const MAX_BATCH_PARALLEL: u64 = 16;

/// Bytes of each output of a command that the response of a batch keeps. The last bytes are kept.
pub const MAX_BATCH_OUTPUT_BYTES: usize = 256 * 1024;

/// Bytes of all outputs that the response of a batch keeps. The output of the earliest commands is dropped first.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of arguments of a command.
pub const MAX_ARGS: usize = 4096;

/// Maximum number of variables that a command adds to its environment.
pub const MAX_ENV_ENTRIES: usize = 64;

/// Maximum total size of the names and values of a command's variables, in bytes.
pub const MAX_ENV_BYTES: usize = 32 * 1024;

/// Time that the agent may take to end a command, for all steps of its escalation, before the container is
/// restarted. Longer than the agent's grace period and its rounds of SIGKILL.
pub const KILL: Duration = Duration::from_secs(4);

/// Time after a command's time limit after which the daemon ends the command itself. The agent's grace period and
/// rounds of SIGKILL are shorter.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(4);

/// Time that the daemon waits for news of a command that should have ended, before it ends the command.
pub const OVERDUE_WAIT: Duration = Duration::from_secs(1);

/// Like [`KILL`], for a command whose time limit the agent missed.
pub const OVERDUE_KILL: Duration = Duration::from_secs(2);

/// Exit code of a command that exceeded its time limit, as in timeout(1).
pub const TIMEOUT_EXIT_CODE: i32 = 124;

/// Time that the engine may take to report that a sandbox ran out of memory, and that a killed process may take to
/// die.
pub const OOM_REPORT: Duration = Duration::from_secs(5);

/// Number of out-of-memory events that are kept per sandbox, the last ones.
pub const MAX_RECORDED_OOMS: usize = 64;

/// How long a wait whose own limit has expired asks for the state of its command.
pub const WAIT_LOOK_UP: Duration = Duration::from_secs(1);

/// Length of an output in bytes up to which `saveOutput` creates no file.
pub const SAVE_OUTPUT_AFTER_BYTES: u64 = 8 * 1024;

/// Maximum and default number of characters of each output in the response of a command that is run to its end.
pub const MAX_OUTPUT_CHARS: u64 = 1_000_000;
/// See [`MAX_OUTPUT_CHARS`].
pub const DEFAULT_OUTPUT_CHARS: u64 = 30_000;

/// Maximum length of a script whose stages are captured, in bytes.
pub const MAX_CAPTURE_SCRIPT_BYTES: usize = 64 * 1024;

/// Maximum number of stages of a pipeline that are captured. The agent has the same limit.
pub const MAX_STAGES: usize = 32;

/// Maximum length of a stage's text in a report, in bytes.
pub const MAX_STAGE_COMMAND_BYTES: usize = 1024;

/// Characters that count as one token of a language model. English text and code have about this many.
pub const CHARS_PER_TOKEN: u64 = 4;

/// Maximum number of tokens of each output.
pub const MAX_OUTPUT_TOKENS: u64 = MAX_OUTPUT_CHARS / CHARS_PER_TOKEN;

/// Time limit of a command with the limits `strict`.
pub const STRICT_TIMEOUT: Duration = Duration::from_secs(10);

/// Processor time of a command with the limits `strict`.
pub const STRICT_CPU: Duration = Duration::from_secs(2);

/// Processes of a command with the limits `strict`.
pub const STRICT_PROCESSES: u32 = 32;

/// Bytes that a command with the limits `strict` may write to both outputs.
pub const STRICT_OUTPUT_BYTES: u64 = 1024 * 1024;

/// How often bash runs any one command of a script with the limits `strict`.
pub const STRICT_LOOP_ITERATIONS: u32 = 100;

/// Longest time limit of a command with the limits `normal`.
pub const NORMAL_TIMEOUT: Duration = Duration::from_secs(120);

/// Processor time of a command with the limits `normal`.
pub const NORMAL_CPU: Duration = Duration::from_secs(60);

/// Processes of a command with the limits `normal`.
pub const NORMAL_PROCESSES: u32 = 256;

/// Bytes that a command with the limits `normal` may write to both outputs.
pub const NORMAL_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// How often bash runs any one command of a script with the limits `normal`.
pub const NORMAL_LOOP_ITERATIONS: u32 = 10_000;

//! Every limit of the agent.

use std::time::Duration;

/// Maximum number of running commands. More are rejected, because the sandbox's process limit is near.
pub(crate) const MAX_RUNNING_COMMANDS: usize = 128;

/// Number of ended commands whose log and end are kept. The oldest are dropped.
pub(crate) const MAX_ENDED_COMMANDS: usize = 256;

/// Number of ended commands that are kept without their log until sandboxd has recorded their end.
pub(crate) const MAX_UNRECORDED_COMMANDS: usize = 4096;

/// Maximum length of the directory and arguments of such a command, in bytes.
pub(crate) const REMEMBERED_TEXT_BYTES: usize = 512;

/// Number of commands on one page of a list, and the length of directory and arguments of each in bytes. A page stays
/// below the longest response that sandboxd accepts.
pub(crate) const COMMANDS_PER_PAGE: usize = 64;
/// See [`COMMANDS_PER_PAGE`].
pub(crate) const LISTED_TEXT_BYTES: usize = 8 * 1024;

/// Maximum size of one command's log in bytes. More than twice a connection's window, so that a reader whose
/// connection broke finds the records that were in transit.
pub(crate) const LOG_BYTES: usize = 8 * 1024 * 1024;

/// Maximum size of all logs together before each is cut to [`SMALL_LOG_BYTES`].
pub(crate) const ALL_LOGS_BYTES: usize = 32 * 1024 * 1024;

/// Maximum size of a log when memory for logs is short and no ended command has output left to discard.
pub(crate) const SMALL_LOG_BYTES: usize = 256 * 1024;

/// The same for a log that its primary reader streams. Half of it must hold what may be in transit: a stream's window
/// and the buffers on both sides.
pub(crate) const REPEATED_LOG_BYTES: usize = 4 * 1024 * 1024;

/// Maximum size of the file with a command's output, and of all of them together, in bytes.
pub(crate) const MAX_OUTPUT_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// See [`MAX_OUTPUT_FILE_BYTES`].
pub(crate) const MAX_OUTPUT_FILES_BYTES: u64 = 256 * 1024 * 1024;

/// How much more space such a file reserves at once, in bytes: as much as it has, within these limits.
pub(crate) const MIN_OUTPUT_FILE_STEP_BYTES: u64 = 64 * 1024;
/// See [`MIN_OUTPUT_FILE_STEP_BYTES`].
pub(crate) const MAX_OUTPUT_FILE_STEP_BYTES: u64 = 4 * 1024 * 1024;

/// Number of output files that are written at once. Each holds a thread meanwhile.
pub(crate) const MAX_OUTPUT_WRITES: usize = 2;

/// How much of the disk stays free for commands, in bytes: this, or one part in [`OUTPUT_FILE_FREE_SHARE`] of a smaller
/// disk.
pub(crate) const OUTPUT_FILE_FREE_BYTES: u64 = 256 * 1024 * 1024;
/// See [`OUTPUT_FILE_FREE_BYTES`].
pub(crate) const OUTPUT_FILE_FREE_SHARE: u64 = 8;

/// Maximum number of entries in the directory of these files. With more, no new file is written.
pub(crate) const MAX_OUTPUT_DIR_ENTRIES: usize = 10_000;

/// Maximum length of an output without a file, in bytes, even if the caller allows more.
pub(crate) const MAX_SHORT_OUTPUT_BYTES: u64 = 64 * 1024;

/// How much output may wait to be written to a file, in bytes. The command then waits.
pub(crate) const MAX_UNWRITTEN_OUTPUT_BYTES: usize = 1024 * 1024;

/// How long a command waits for its output file. Then the file stays incomplete.
pub(crate) const OUTPUT_FILE_STALL: Duration = Duration::from_secs(5);

/// Number of arguments in a command's status, and the length of each in bytes.
pub(crate) const STATUS_ARGS: usize = 64;
/// See [`STATUS_ARGS`].
pub(crate) const STATUS_ARG_BYTES: usize = 4 * 1024;

/// Maximum amount of data in one message to a reader.
pub(crate) const MESSAGE_BYTES: usize = 256 * 1024;

/// How long a command waits for its primary reader after that reader's connection broke, so that a restart of
/// sandboxd loses nothing.
pub(crate) const READER_HOLD: Duration = Duration::from_secs(30);

/// How long a command waits for a reader that has left. Also how long a command that was started without a stream waits
/// for its first reader. A command without a reader is never slowed for longer.
pub(crate) const READER_ABSENCE: Duration = Duration::from_secs(3);

/// Maximum length of the standard input in a start request, in bytes.
pub(crate) const MAX_STDIN_BYTES: usize = 8 * 1024 * 1024;

/// How long a writer waits for a command to read, and for other writers. Shorter than sandboxd's own timeout.
pub(crate) const STDIN_STALL: Duration = Duration::from_secs(30);

/// Maximum length of a script in bytes.
pub(crate) const MAX_SCRIPT_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of stages of a pipeline that are reported.
pub(crate) const MAX_STAGES: usize = 32;

/// How much of what a stage writes to the next one is kept, in bytes.
pub(crate) const STAGE_OUTPUT_BYTES: usize = 32 * 1024;

/// Maximum length of a command id.
pub(crate) const MAX_ID_BYTES: usize = 80;

/// Maximum number of files in one write.
pub(crate) const MAX_FILES_PER_WRITE: usize = 10_000;

/// Maximum length of a path in bytes: PATH_MAX of limits.h without its NUL.
pub(crate) const MAX_PATH_BYTES: usize = 4095;

/// Number of processes that wait: a template, and a shell. sandboxd allows them beside those of the sandbox.
pub(crate) const SHELL_PROCESSES: u64 = 2;

/// How long the end of a command is awaited before another such shell is started.
pub(crate) const SHELL_PAUSE: Duration = Duration::from_millis(20);

/// How often other tasks get their turn between the end of a command and the start of such a shell.
pub(crate) const SHELL_YIELDS: u32 = 16;

/// How long a shell waits for the next command before it is ended.
pub(crate) const SHELL_IDLE: Duration = Duration::from_secs(60);

/// How long a command waits until such a shell is forked, below a second. The agent does nothing else meanwhile.
pub(crate) const SHELL_FORK: Duration = Duration::from_millis(50);

/// Number of templates in succession that may end before one of their shells waits. Then no more are started.
pub(crate) const SHELL_FAILURES: u32 = 3;

/// Maximum number of running terminals.
pub(crate) const MAX_TERMINALS: usize = 64;

/// Number of ended terminals that are kept with their last screen. The oldest are dropped.
pub(crate) const MAX_ENDED_TERMINALS: usize = 32;

/// Maximum number of viewers of one terminal.
pub(crate) const MAX_VIEWERS: usize = 16;

/// Maximum number of columns and rows of a terminal. A character of a screen takes 32 bytes here, and twice that
/// while a program uses the alternate screen.
pub(crate) const MAX_COLS: u16 = 500;
/// See [`MAX_COLS`].
pub(crate) const MAX_ROWS: u16 = 200;

/// How much of a terminal's output is kept, in bytes. It is the scrollback of viewers that attach.
pub(crate) const SCROLLBACK_BYTES: usize = 256 * 1024;

/// Number of rendered rows kept above the screen. Zero, because [`SCROLLBACK_BYTES`] keeps them as written, at a
/// twentieth of the memory.
pub(crate) const SCREEN_SCROLLBACK_ROWS: usize = 0;

/// Maximum length of a terminal's program and arguments in a response, in bytes. A list holds those of all terminals.
pub(crate) const TERMINAL_ARGV_BYTES: usize = 2048;

/// Maximum length of a screen's text in a response, in bytes.
pub(crate) const SCREEN_TEXT_BYTES: usize = 512 * 1024;

/// Maximum length of the escape sequences that draw the last screen of an ended terminal, in bytes. A longer screen
/// is sent as plain text.
pub(crate) const LAST_SCREEN_BYTES: usize = 256 * 1024;

/// Maximum amount of data in one message to a viewer. Small, because a viewer that is behind gets the newest data
/// only after it.
pub(crate) const VIEW_BYTES: usize = 64 * 1024;

/// Maximum length of the input in one request, and of the input that waits for a terminal's program, in bytes.
pub(crate) const MAX_INPUT_BYTES: usize = 64 * 1024;
/// See [`MAX_INPUT_BYTES`].
pub(crate) const MAX_WAITING_INPUT_BYTES: usize = 256 * 1024;

/// How long input waits for the program to read it, in addition to the kernel's own 4 KiB.
pub(crate) const INPUT_WAIT: Duration = Duration::from_secs(5);

/// Maximum number of contexts.
pub(crate) const MAX_CONTEXTS: usize = 8;

/// Maximum length of the code of a run in bytes.
pub(crate) const MAX_CODE_BYTES: usize = 1024 * 1024;

/// Maximum size of the output of a run in bytes, and of its records. More is dropped and counted, and the code continues.
pub(crate) const MAX_RUN_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// See [`MAX_RUN_OUTPUT_BYTES`].
pub(crate) const MAX_RUN_RECORDS_BYTES: usize = 16 * 1024 * 1024;

/// What a record costs beside its values, so that their number is bounded too.
pub(crate) const RUN_RECORD_COST_BYTES: usize = 1024;

/// Maximum number of values in a record of a run, and the length of the lines between them in bytes.
pub(crate) const MAX_RECORD_VALUES: usize = 16;
/// See [`MAX_RECORD_VALUES`].
pub(crate) const MAX_RECORD_LINE_BYTES: usize = 64;

/// How long an interrupted run may take to end before its interpreter is killed.
pub(crate) const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// How often the interrupt is repeated meanwhile.
pub(crate) const INTERRUPT_REPEAT: Duration = Duration::from_millis(500);

/// How long an interpreter may take to end after its control channel is closed.
pub(crate) const INTERPRETER_EXIT: Duration = Duration::from_millis(500);

/// How long a killed interpreter may take to be reaped.
pub(crate) const INTERPRETER_COLLECT: Duration = Duration::from_secs(5);

/// Maximum depth of directories in a walk and in an archive.
pub(crate) const MAX_WALK_DEPTH: usize = 128;

/// Maximum number of names that a walk keeps of one directory, and the size of all that it keeps of all levels, in
/// bytes.
pub(crate) const MAX_WALK_NAMES: usize = 200_000;
/// See [`MAX_WALK_NAMES`].
pub(crate) const MAX_WALK_BYTES: usize = 16 * 1024 * 1024;

/// Maximum size of one page of a list, in bytes.
pub(crate) const LIST_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of levels and entries of one list.
pub(crate) const MAX_LIST_DEPTH: u32 = 32;
/// See [`MAX_LIST_DEPTH`].
pub(crate) const MAX_LIST_ENTRIES: u32 = 10_000;

/// Maximum size of an edited file before and after the edit, in bytes.
pub(crate) const MAX_EDIT_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of replacements of all edits in one request.
pub(crate) const MAX_REPLACEMENTS: usize = 250_000;

/// Maximum size of the diff of an edit, in bytes. An edit that would need a longer one is rejected.
pub(crate) const MAX_DIFF_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of lines from the first change to the last in a diff.
pub(crate) const MAX_DIFF_LINES: usize = 250_000;

/// Maximum number of edits in one request.
pub(crate) const MAX_EDITS: usize = 256;

/// Maximum number of members of an archive, and their total unpacked size in bytes.
pub(crate) const MAX_ARCHIVE_MEMBERS: u64 = 200_000;
/// See [`MAX_ARCHIVE_MEMBERS`].
pub(crate) const MAX_ARCHIVE_BYTES: u64 = 64 * 1024 * 1024 * 1024;

/// Maximum duration of one search.
pub(crate) const SEARCH: Duration = Duration::from_secs(20);

/// Maximum number of files and directories that one search looks at.
pub(crate) const MAX_SEARCHED_FILES: u64 = 1_000_000;

/// Maximum number of results of one search.
pub(crate) const MAX_SEARCH_RESULTS: u32 = 10_000;

/// Maximum size of the results of one search together, in bytes.
pub(crate) const SEARCH_REPLY_BYTES: usize = 4 * 1024 * 1024;

/// Maximum length of a matching line in a result, in bytes.
pub(crate) const MAX_SEARCH_LINE_BYTES: usize = 2 * 1024;

/// Maximum length of a line that is searched, in bytes. The search of a file ends where a longer line begins.
pub(crate) const SEARCH_HEAP_BYTES: usize = 8 * 1024 * 1024;

/// Maximum length of a query or a pattern in bytes, and the number of patterns of one search.
pub(crate) const MAX_PATTERN_BYTES: usize = 4 * 1024;
/// See [`MAX_PATTERN_BYTES`].
pub(crate) const MAX_PATTERNS: usize = 100;

/// Maximum size of all `.gitignore` files that apply to one directory, in bytes. A pattern takes a thousand times its
/// length in memory.
pub(crate) const MAX_GITIGNORE_BYTES: usize = 48 * 1024;

/// Maximum number of directories of one watch. The kernel's own limit applies to all processes of a user.
pub(crate) const MAX_WATCHED_DIRS: usize = 8192;

/// Maximum number of changes in one report. More are reported as an overflow.
pub(crate) const MAX_WATCH_EVENTS: usize = 4096;

/// Maximum number of concurrent edits and searches. Each holds a thread while it runs.
pub(crate) const MAX_HEAVY_CALLS: usize = 4;

/// Maximum number of archives that are unpacked concurrently. Each holds a thread from its first byte to its last,
/// however slowly the bytes arrive. The number is low, because these threads count towards the sandbox's process
/// limit.
pub(crate) const MAX_UNPACKS: usize = 2;

/// How long an unpacking archive may send nothing. Longer than sandboxd's own timeout for its client, which reports
/// the error first.
pub(crate) const UNPACK_SILENCE: Duration = Duration::from_secs(90);

/// Maximum number of archives that are packed concurrently, and of reads of files longer than one message. Data that
/// a caller does not read takes memory.
pub(crate) const MAX_PACKS: usize = 4;
/// See [`MAX_PACKS`].
pub(crate) const MAX_READS: usize = 32;

/// Maximum number of snapshots and restores at once. Each holds a thread.
pub(crate) const MAX_SNAPSHOTS: usize = 1;

/// Maximum depth of a directory in a snapshot. Deeper trees are rejected.
pub(crate) const MAX_SNAPSHOT_DEPTH: usize = MAX_WALK_DEPTH;

/// Maximum size of the records of changed modes, in bytes. There is one for each directory that a walk is in.
pub(crate) const MAX_MODE_RECORDS_BYTES: u64 = 8 * 1024 * 1024;

/// Memory that a snapshot may take for names of directories and of files with several links, in bytes.
pub(crate) const MAX_SNAPSHOT_NAMES_BYTES: usize = 20 * 1024 * 1024;

/// How long a snapshot's processes stay stopped at most.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How long a snapshot or a restore computes before it rests.
pub(crate) const SNAPSHOT_WORK: Duration = Duration::from_millis(1);

/// How long it then rests. The kernel adds up to 50 microseconds (prctl(2), `PR_SET_TIMERSLACK`).
pub(crate) const SNAPSHOT_REST: Duration = Duration::from_micros(50);

/// How long a snapshot sends nothing. sandboxd ends one that is silent for much longer.
pub(crate) const SNAPSHOT_HEARTBEAT: Duration = Duration::from_secs(20);

/// How long a restore waits for its next step.
pub(crate) const RESTORE_SILENCE: Duration = Duration::from_secs(90);

/// How long an operation over these limits waits for another to end.
pub(crate) const HEAVY_TURN: Duration = Duration::from_secs(10);

/// Maximum number of concurrent watches.
pub(crate) const MAX_WATCHES: usize = 16;

/// Port of the agent's proxy on the sandbox's loopback. It is below the kernel's ephemeral ports, and no common
/// developer tool uses it.
pub(crate) const PROXY_PORT: u16 = 13_128;

/// How long a client of the proxy may take to send a request's head, and to stay idle between two requests.
pub(crate) const PROXY_HEAD: Duration = Duration::from_secs(30);

/// Maximum length of the head of a request to the proxy, in bytes.
pub(crate) const PROXY_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of headers of a request to the proxy, and of a response.
pub(crate) const PROXY_HEADERS: usize = 100;
/// Maximum length of the head of a response in bytes.
pub(crate) const PROXY_RESPONSE_HEAD_BYTES: usize = 256 * 1024;

/// How long an outbound connection waits while no sandboxd is connected.
pub(crate) const NO_DAEMON_WAIT: Duration = Duration::from_secs(5);

/// How long sandboxd may take to open an outbound connection or to reject it. sandboxd has shorter deadlines itself.
pub(crate) const OUTBOUND_OPEN: Duration = Duration::from_secs(60);

/// How long a client of the proxy may take to read the reply that its connection is open.
pub(crate) const PROXY_REPLY: Duration = Duration::from_secs(10);

/// Pause of the proxy after a failed accept, most likely because there are no free descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum length of a host's name or address in bytes: the longest that SOCKS can carry, and longer than a DNS name.
pub(crate) const MAX_HOST_BYTES: usize = 255;

/// Maximum length of the reason for a rejected connection, in bytes.
pub(crate) const MAX_REFUSAL_BYTES: usize = 512;

/// How long a server in the sandbox may take to accept a connection while its backlog is full.
pub(crate) const LOOPBACK_CONNECT: Duration = Duration::from_secs(5);

/// How long the data in a tunnel may wait to be read after the other end has closed.
pub(crate) const DRAIN_AFTER_CLOSE: Duration = Duration::from_secs(30);

/// How long after a tunnel's end the memory of tunnels is returned to the sandbox.
pub(crate) const MEMORY_RETURN_DELAY: Duration = Duration::from_secs(5);

/// Minimum number of bytes that are read from a tunnel's socket at once. The number grows for a busy tunnel up to the
/// maximum chunk size.
pub(crate) const MIN_CHUNK_BYTES: usize = 8 * 1024;

/// Size of the buffer between the proxy's own HTTP and a tunnel, for each direction.
pub(crate) const INNER_BYTES: usize = 64 * 1024;

/// Maximum number of listening sockets in a report.
pub(crate) const MAX_LISTENING: usize = 256;

/// Maximum number of sockets in the kernel's list, and of open files of processes, that are examined to find the
/// owners of sockets.
pub(crate) const MAX_EXAMINED_SOCKETS: usize = 65_536;
/// See [`MAX_EXAMINED_SOCKETS`].
pub(crate) const MAX_EXAMINED_FILES: usize = 65_536;

/// Maximum number of threads of one process whose environments are read to find the owner of the process.
pub(crate) const MAX_EXAMINED_THREADS: usize = 16;

/// How often a start is retried after leftovers were killed, and the pause between two attempts.
pub(crate) const REAP_TRIES: usize = 50;
/// See [`REAP_TRIES`].
pub(crate) const REAP_PAUSE: Duration = Duration::from_millis(10);

/// Number of processes in a sandbox above which all of them are stopped while the agent looks for those of a command.
pub(crate) const CROWD_PROCESSES: usize = 100;

/// Number of ended children that are reaped before other tasks run.
pub(crate) const REAPED_AT_ONCE: usize = 64;

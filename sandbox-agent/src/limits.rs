//! Every bound of the agent, by name.

use std::time::Duration;

/// Commands that may run at once. More are refused: the sandbox's process limit is near.
pub(crate) const MAX_RUNNING_COMMANDS: usize = 128;

/// Ended commands whose log and end are kept, the newest ones.
pub(crate) const MAX_ENDED_COMMANDS: usize = 256;

/// Ended commands that are remembered after their log is gone, until sandboxd has recorded their end.
pub(crate) const MAX_UNRECORDED_COMMANDS: usize = 4096;

/// Directory and arguments of such a command, in bytes.
pub(crate) const REMEMBERED_TEXT_BYTES: usize = 512;

/// Commands on one page of a list, and directory and arguments of each in bytes. A page stays below the longest
/// answer that sandboxd accepts.
pub(crate) const COMMANDS_PER_PAGE: usize = 64;
/// See [`COMMANDS_PER_PAGE`].
pub(crate) const LISTED_TEXT_BYTES: usize = 8 * 1024;

/// What one command's log keeps, in bytes. Twice a connection's window and more, so that a reader whose
/// connection broke finds what was on its way.
pub(crate) const LOG_BYTES: usize = 8 * 1024 * 1024;

/// What all logs together keep before each is cut to [`SMALL_LOG_BYTES`].
pub(crate) const ALL_LOGS_BYTES: usize = 32 * 1024 * 1024;

/// What a log keeps while memory for logs is short and there is no ended command left to forget.
pub(crate) const SMALL_LOG_BYTES: usize = 256 * 1024;

/// The same for a log whose own reader streams it: half of it must hold what a connection can have swallowed,
/// a stream's window with the buffers on both sides of it.
pub(crate) const REPEATED_LOG_BYTES: usize = 4 * 1024 * 1024;

/// Arguments of a command that its status tells, and of each so many bytes.
pub(crate) const STATUS_ARGS: usize = 64;
/// See [`STATUS_ARGS`].
pub(crate) const STATUS_ARG_BYTES: usize = 4 * 1024;

/// Data in one message to a reader.
pub(crate) const MESSAGE_BYTES: usize = 256 * 1024;

/// How long a command waits for its own reader after that reader's connection broke, so that a restart of
/// sandboxd loses nothing.
pub(crate) const READER_HOLD: Duration = Duration::from_secs(30);

/// How long a command that was started without a stream waits for its first reader, and how long one waits for a
/// reader that has left. A command that nobody reads is never slowed for longer.
pub(crate) const READER_ABSENCE: Duration = Duration::from_secs(3);

/// Standard input passed with the start of a command, in bytes.
pub(crate) const MAX_STDIN_BYTES: usize = 8 * 1024 * 1024;

/// How long a writer waits for a command to read, and for its turn. Shorter than sandboxd's own patience.
pub(crate) const STDIN_STALL: Duration = Duration::from_secs(30);

/// A script, in bytes.
pub(crate) const MAX_SCRIPT_BYTES: usize = 8 * 1024 * 1024;

/// Longest command id.
pub(crate) const MAX_ID_BYTES: usize = 80;

/// Files in one write.
pub(crate) const MAX_FILES_PER_WRITE: usize = 10_000;

/// Path of a file in bytes, PATH_MAX of limits.h without its NUL.
pub(crate) const MAX_PATH_BYTES: usize = 4095;

/// Terminals that may run at once.
pub(crate) const MAX_TERMINALS: usize = 64;

/// Ended terminals that are kept with their last screen, the newest ones.
pub(crate) const MAX_ENDED_TERMINALS: usize = 32;

/// Viewers of one terminal at once.
pub(crate) const MAX_VIEWERS: usize = 16;

/// Columns and rows of a terminal. A character of a screen takes 32 bytes here, twice while a program uses the
/// alternate screen.
pub(crate) const MAX_COLS: u16 = 500;
/// See [`MAX_COLS`].
pub(crate) const MAX_ROWS: u16 = 200;

/// What a terminal keeps of what was written to it, in bytes: the scrollback of those who attach.
pub(crate) const SCROLLBACK_BYTES: usize = 256 * 1024;

/// Rows above the screen that are kept rendered. None: [`SCROLLBACK_BYTES`] has them as they were written, at a
/// twentieth of the price.
pub(crate) const SCREEN_SCROLLBACK_ROWS: usize = 0;

/// Program and arguments of a terminal that are told, in bytes: a list tells those of all.
pub(crate) const TERMINAL_ARGV_BYTES: usize = 2048;

/// Text of one screen that is told, in bytes.
pub(crate) const SCREEN_TEXT_BYTES: usize = 512 * 1024;

/// What brings a viewer's terminal to the last screen of one that has ended, in bytes. Longer ones are told as
/// text alone.
pub(crate) const STILL_BYTES: usize = 256 * 1024;

/// Data in one message to a viewer. Small, because a viewer that is behind gets what is newest only after it.
pub(crate) const VIEW_BYTES: usize = 64 * 1024;

/// What is typed in one request, and what waits for a terminal's program to read it, in bytes.
pub(crate) const MAX_INPUT_BYTES: usize = 64 * 1024;
/// See [`MAX_INPUT_BYTES`].
pub(crate) const MAX_WAITING_INPUT_BYTES: usize = 256 * 1024;

/// How long what is typed waits for the program to read it, behind the kernel's own 4 KiB.
pub(crate) const INPUT_WAIT: Duration = Duration::from_secs(5);

/// Levels of directories a walk goes down, and an archive may have.
pub(crate) const MAX_WALK_DEPTH: usize = 128;

/// Names of one directory that a walk keeps in memory, the first ones; and all that it keeps of all levels, in bytes.
pub(crate) const MAX_WALK_NAMES: usize = 200_000;
/// See [`MAX_WALK_NAMES`].
pub(crate) const MAX_WALK_BYTES: usize = 16 * 1024 * 1024;

/// One page of a list, in bytes.
pub(crate) const LIST_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Levels and entries of one list.
pub(crate) const MAX_LIST_DEPTH: u32 = 32;
/// See [`MAX_LIST_DEPTH`].
pub(crate) const MAX_LIST_ENTRIES: u32 = 10_000;

/// A file that is edited, before and after, in bytes.
pub(crate) const MAX_EDIT_BYTES: usize = 16 * 1024 * 1024;

/// The diff of an edit, in bytes. What would need a longer one is not done.
pub(crate) const MAX_DIFF_BYTES: usize = 4 * 1024 * 1024;

/// Lines from the first change to the last, of which a diff is made.
pub(crate) const MAX_DIFF_LINES: usize = 250_000;

/// Edits of one request.
pub(crate) const MAX_EDITS: usize = 256;

/// Members of an archive, and what they may unpack to together, in bytes.
pub(crate) const MAX_ARCHIVE_MEMBERS: u64 = 200_000;
/// See [`MAX_ARCHIVE_MEMBERS`].
pub(crate) const MAX_ARCHIVE_BYTES: u64 = 64 * 1024 * 1024 * 1024;

/// How long one search may take.
pub(crate) const SEARCH: Duration = Duration::from_secs(20);

/// Files and directories one search looks at.
pub(crate) const MAX_SEARCHED_FILES: u64 = 1_000_000;

/// Results of one search.
pub(crate) const MAX_SEARCH_RESULTS: u32 = 10_000;

/// The results of one search together, in bytes.
pub(crate) const SEARCH_REPLY_BYTES: usize = 4 * 1024 * 1024;

/// What is told of a line that matches, in bytes.
pub(crate) const MAX_SEARCH_LINE_BYTES: usize = 2 * 1024;

/// The longest line that is searched, in bytes: a file with a longer one is left where it begins.
pub(crate) const SEARCH_HEAP_BYTES: usize = 8 * 1024 * 1024;

/// A query or a pattern, in bytes, and patterns of one search.
pub(crate) const MAX_PATTERN_BYTES: usize = 4 * 1024;
/// See [`MAX_PATTERN_BYTES`].
pub(crate) const MAX_PATTERNS: usize = 100;

/// What is read of all `.gitignore` files that hold at one place, in bytes. A pattern takes a thousand times its length
/// in memory.
pub(crate) const MAX_GITIGNORE_BYTES: usize = 48 * 1024;

/// Directories of one watch. The kernel's own bound is for all of a user's processes.
pub(crate) const MAX_WATCHED_DIRS: usize = 8192;

/// Changes that are told at once; more are told as an overflow.
pub(crate) const MAX_WATCH_EVENTS: usize = 4096;

/// Edits and searches at once, each of which holds a thread while it goes on.
pub(crate) const MAX_HEAVY_CALLS: usize = 4;

/// Archives that are unpacked at once, each of which holds a thread from its first byte to its last, however slowly they
/// come. Few, because these threads count among the sandbox's processes.
pub(crate) const MAX_UNPACKS: usize = 2;

/// How long nothing of an archive may come. Longer than sandboxd's own patience with its client, which is told then.
pub(crate) const UNPACK_SILENCE: Duration = Duration::from_secs(90);

/// Archives that are packed at once, and files of more than one message that are read: what a caller leaves unread
/// takes memory.
pub(crate) const MAX_PACKS: usize = 4;
/// See [`MAX_PACKS`].
pub(crate) const MAX_READS: usize = 32;

/// How long one more of them waits for a turn.
pub(crate) const HEAVY_TURN: Duration = Duration::from_secs(10);

/// Watches at once.
pub(crate) const MAX_WATCHES: usize = 16;

/// Where the agent's proxy listens on the sandbox's loopback. Below the ports that the kernel gives away, and none that
/// programs for developers are known for.
pub(crate) const PROXY_PORT: u16 = 13_128;

/// How long a client of the proxy may take for a request's head, and do nothing between two requests.
pub(crate) const PROXY_HEAD: Duration = Duration::from_secs(30);

/// The head of a request to the proxy, in bytes and in headers; and that of an answer it passes on, in bytes.
pub(crate) const PROXY_HEAD_BYTES: usize = 64 * 1024;
/// See [`PROXY_HEAD_BYTES`].
pub(crate) const PROXY_HEADERS: usize = 100;
/// See [`PROXY_HEAD_BYTES`].
pub(crate) const PROXY_ANSWER_HEAD_BYTES: usize = 256 * 1024;

/// How long a connection to the outside waits while no sandboxd is there to be asked.
pub(crate) const NOBODY_TO_ASK: Duration = Duration::from_secs(5);

/// How long sandboxd may take to open a connection to the outside, or to refuse it. It has shorter deadlines of its own.
pub(crate) const TAKE_UP: Duration = Duration::from_secs(60);

/// How long a client of the proxy may take to hear that its connection is open.
pub(crate) const HAND_OVER: Duration = Duration::from_secs(10);

/// Pause of the proxy when no connection can be accepted, for want of descriptors most likely.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Name or address of a host, in bytes: the longest that SOCKS can carry, and longer than a name of DNS.
pub(crate) const MAX_HOST_BYTES: usize = 255;

/// Why a connection was refused, in bytes.
pub(crate) const MAX_REFUSAL_BYTES: usize = 512;

/// How long a server in the sandbox may take to accept a connection that the kernel has no room for.
pub(crate) const LOOPBACK_CONNECT: Duration = Duration::from_secs(5);

/// How long what was sent into a tunnel may take to be read after the other end has left.
pub(crate) const LAST_BYTES: Duration = Duration::from_secs(30);

/// How long after a tunnel's end the memory that tunnels took is given back to the sandbox.
pub(crate) const GIVE_BACK: Duration = Duration::from_secs(5);

/// What is read of a tunnel's socket at once at least, in bytes; a busy one is read in parts of the most that may be.
pub(crate) const MIN_PART_BYTES: usize = 8 * 1024;

/// Bytes between the proxy's own HTTP and a tunnel, for each direction.
pub(crate) const INNER_BYTES: usize = 64 * 1024;

/// Listening sockets that are told of.
pub(crate) const MAX_LISTENING: usize = 256;

/// Sockets of the kernel's list that are looked at, and open files of processes, to find whose they are.
pub(crate) const MAX_LOOKED_AT_SOCKETS: usize = 65_536;
/// See [`MAX_LOOKED_AT_SOCKETS`].
pub(crate) const MAX_LOOKED_AT_FILES: usize = 65_536;

/// Threads of one process whose environments are read, to find whose the process is.
pub(crate) const MAX_LOOKED_AT_THREADS: usize = 16;

/// How often a start is tried again after leftovers were ended, and the pause between two tries.
pub(crate) const COLLECT_TRIES: usize = 50;
/// See [`COLLECT_TRIES`].
pub(crate) const COLLECT_PAUSE: Duration = Duration::from_millis(10);

/// Processes of a sandbox from which on all of them are stopped while the agent looks for those of one command.
pub(crate) const CROWD: usize = 100;

/// Ended children that are collected before other work has its turn.
pub(crate) const COLLECTED_AT_ONCE: usize = 64;

//! Every bound of the daemon, by name.

use std::num::NonZeroU32;
use std::time::Duration;

use sandbox_api::limits as shared;

/// Bounds that the operator sets.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Sandboxes that may run at once.
    pub max_concurrent: usize,
    /// Idle time where a caller names none.
    pub default_idle_ttl: Duration,
    /// How long the workspace of a parked sandbox is kept, by the daemon's own age.
    pub workspace_retention: Duration,
    /// What all workspaces may take together before parked ones are deleted; `None` is no budget.
    pub disk_budget_bytes: Option<u64>,
    /// How long what only the engine knows is kept before it is removed, by the daemon's own age and by the wall clock.
    pub orphan_grace: Duration,
    /// Longest request body in bytes.
    pub max_body_bytes: usize,
    /// Longest time a command may be given.
    pub max_command_timeout: Duration,
    /// How long a server in a sandbox may take to begin its answer to a visitor.
    pub preview_answer: Duration,
}

/// Time a command gets where the caller names none.
pub const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_millis(shared::DEFAULT_COMMAND_TIMEOUT_MS);

/// Shortest time a command may be given.
pub const MIN_COMMAND_TIMEOUT: Duration = Duration::from_millis(shared::MIN_COMMAND_TIMEOUT_MS);

/// Longest script in bytes.
pub const MAX_SCRIPT_BYTES: usize = 8 * 1024 * 1024;

/// Longest standard input that comes with a command, in bytes.
pub const MAX_STDIN_BYTES: usize = 8 * 1024 * 1024;

/// Writers to standard input of one sandbox's commands at once; more are refused.
pub const MAX_WRITERS: usize = 32;

/// Bytes for standard input that a writer has on their way and unanswered. All writers of a sandbox together stay
/// below its connection's window, which other calls share.
pub const STDIN_WINDOW_BYTES: u64 = 128 * 1024;

/// Parts they come in, likewise.
pub const STDIN_PARTS: usize = 16;

/// How long the agent may take to tell of progress. It gives the command less than that to read, and says so.
pub const STDIN_ANSWER: Duration = Duration::from_secs(45);

/// How long a writer to standard input may send nothing. Meanwhile nobody else can write to it.
pub const STDIN_SILENCE: Duration = Duration::from_secs(5 * 60);

/// Commands of one batch.
pub const MAX_BATCH_COMMANDS: usize = 50;

/// What a batch's answer keeps of each output of a command, the last bytes.
pub const MAX_BATCH_OUTPUT_BYTES: usize = 256 * 1024;

/// What it keeps of all of them; what the earliest commands wrote goes first.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Arguments of one command.
pub const MAX_ARGS: usize = 4096;

/// Variables a command may add to its environment, and their names and values together in bytes.
pub const MAX_ENV_ENTRIES: usize = 64;
/// See [`MAX_ENV_ENTRIES`].
pub const MAX_ENV_BYTES: usize = 32 * 1024;

/// Longest path in bytes (PATH_MAX without its NUL).
pub const MAX_PATH_BYTES: usize = 4095;

/// Largest file `files:read` returns, in bytes.
pub const MAX_READ_BYTES: u64 = 50 * 1024 * 1024;

/// Files one `files:write` may carry.
pub const MAX_FILES_PER_WRITE: usize = 10_000;

/// Size of the parts a written file travels in: half of a stream's window, so that the next part travels while
/// the agent writes one down.
pub const FILE_PART_BYTES: usize = 256 * 1024;

/// How long an engine may take to say that it is there.
pub const ENGINE_PING: Duration = Duration::from_secs(2);

/// How long it and the agent may take to tell what a sandbox takes, before an answer goes without.
pub const USAGE: Duration = Duration::from_secs(2);

/// How long the answer to a create that failed waits for the removal of what it left, so that the next one finds
/// nothing in its way.
pub const UNDO: Duration = Duration::from_secs(3);

/// How long any other call to the engine may take.
pub const ENGINE_CALL: Duration = Duration::from_secs(30);

/// How long a disk may take to be made.
pub const DISK_MAKE: Duration = Duration::from_secs(30);

/// How long a disk may take to be attached, with mending what a crash left.
pub const DISK_ATTACH: Duration = Duration::from_secs(120);

/// How long any other request to the disks' helper may take, and its own start and end.
pub const DISK_CALL: Duration = Duration::from_secs(10);

/// How long a disk that is to be removed is waited for while something has it mounted.
pub const DISK_LET_GO: Duration = Duration::from_secs(5);

/// How long a new container's agent may take to answer.
pub const AGENT_FIRST_ANSWER: Duration = Duration::from_secs(20);

/// How long an agent may be away before a request for it fails.
pub const AGENT_ABSENCE: Duration = Duration::from_secs(5);

/// How long a connection on an agent's socket may take to greet.
pub const GREETING: Duration = Duration::from_secs(5);

/// How long the agent may take to end a command, all rungs of its ladder together, before its container is restarted.
/// Longer than the agent's grace period and its passes of KILL.
pub const KILL: Duration = Duration::from_secs(4);

/// As [`KILL`], for a terminal: its program is ended first, and then what had left the terminal.
pub const CLOSE_TERMINAL: Duration = Duration::from_secs(8);

/// How long after a command's timeout the daemon ends it itself. The agent's grace period and passes of KILL are within
/// it.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(4);

/// How long the daemon waits for word of a command that should have ended, before it ends it.
pub const OVERDUE_LOOK: Duration = Duration::from_secs(1);

/// As [`KILL`], for a command whose timeout the agent missed.
pub const OVERDUE_KILL: Duration = Duration::from_secs(2);

/// Exit code of a command that ran out of time, as timeout(1) has it.
pub const TIMEOUT_EXIT_CODE: i32 = 124;

/// How long any other short call to an agent may take.
pub const AGENT_CALL: Duration = Duration::from_secs(30);

/// How long the files of one request that are in memory may take to be written or read, and how long a file that is
/// streamed may stand still.
pub const FILE_TRANSFER: Duration = Duration::from_secs(120);

/// How long a search may take: a turn among others, and the search itself.
pub const SEARCH: Duration = Duration::from_secs(40);

/// The diff of an edit, in bytes.
pub const MAX_DIFF_BYTES: usize = 4 * 1024 * 1024;

/// Entries of one list and results of one search together, in bytes.
pub const MAX_FOUND_BYTES: usize = 8 * 1024 * 1024;

/// Levels and entries of one list; where the caller names no number, one level and so many entries.
pub const MAX_LIST_DEPTH: u32 = 32;
/// See [`MAX_LIST_DEPTH`].
pub const MAX_LIST_ENTRIES: u32 = 10_000;
/// See [`MAX_LIST_DEPTH`].
pub const DEFAULT_LIST_ENTRIES: u32 = 1000;

/// Results of one search, and where the caller names no number.
pub const MAX_SEARCH_RESULTS: u32 = 10_000;
/// See [`MAX_SEARCH_RESULTS`].
pub const DEFAULT_SEARCH_RESULTS: u32 = 200;

/// Edits of one request; the agent refuses more.
pub const MAX_EDITS: usize = 256;

/// A query or a pattern of a search, in bytes; the agent refuses longer ones.
pub const MAX_PATTERN_BYTES: usize = 4 * 1024;

/// Streams and waits of one sandbox at once; more are refused.
pub const MAX_READERS: usize = 256;

/// How long a broken connection is given to come back, or the engine to notice why, before both are asked
/// again.
pub const RECHECK: Duration = Duration::from_millis(250);

/// Longest request body that needs no room in [`MAX_BODIES_BYTES`], in bytes, so that it waits for nobody. A
/// connection has one at a time, so all of them together are at most [`MAX_CONNECTIONS`] times as many.
pub const SMALL_BODY_BYTES: usize = 64 * 1024;

/// Larger bodies of all requests together that are in memory, in bytes; more wait for room.
pub const MAX_BODIES_BYTES: usize = 256 * 1024 * 1024;

/// How long the engine may take to tell that a sandbox's memory was not enough, and a killed process to die.
pub const OOM_TOLD: Duration = Duration::from_secs(5);

/// Times a sandbox's memory was not enough that are kept, the last ones.
pub const MAX_NOTED_OOMS: usize = 64;

/// Containers that are remembered as warned of; beyond that all are warned of once more.
pub const MAX_WARNED_OF: usize = 1024;

/// How long the reader that started a command may be the only one who will hear of its end.
pub const HAND_OVER: Duration = Duration::from_secs(5);

/// Output that a stream passes on at once, in bytes, and what a record costs beside its data.
pub const PIECE_BYTES: usize = 64 * 1024;
/// See [`PIECE_BYTES`].
pub const RECORD_OVERHEAD_BYTES: usize = 64;

/// What all streams together may hold of events that their clients do not read, in bytes; what is beyond is read again
/// from the agents' logs when a client asks for it. It is counted as if each stream held all it can: a window of the
/// agent's connection and one message.
pub const MAX_UNREAD_BYTES: usize = 48 * 1024 * 1024;
/// See [`MAX_UNREAD_BYTES`].
pub const UNREAD_STREAM_BYTES: usize = 768 * 1024;

/// How long a stream holds events that its client does not read, and how often that is looked at.
pub const UNREAD_EVENTS: Duration = Duration::from_secs(1);
/// See [`UNREAD_EVENTS`].
pub const FEED_SWEEP: Duration = Duration::from_millis(250);

/// How often an agent hears that a reader which holds no events comes back. Agents wait three times as long.
pub const SLOW_READER: Duration = Duration::from_secs(10);

/// How often freed memory is given back to the system.
pub const GIVE_BACK: Duration = Duration::from_secs(10);

/// Silence in a record stream before a heartbeat.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// Connections served at once; more wait to be accepted.
pub const MAX_CONNECTIONS: usize = 1024;

/// How long a client may take to send a request's head.
pub const REQUEST_HEAD: Duration = Duration::from_secs(10);

/// How long a client may take to send a request's body.
pub const REQUEST_BODY: Duration = Duration::from_secs(120);

/// How long a client may send nothing of a file that it uploads.
pub const UPLOAD_PAUSE: Duration = Duration::from_secs(60);

/// How long a client may leave an answer unread. While it does, its stream holds a reader's place, its sandbox
/// in use and perhaps a command back. Five minutes are what somebody may leave a paused terminal for.
pub const STALLED_READER: Duration = Duration::from_secs(5 * 60);

/// Headers of a request, and their size together in bytes.
pub const MAX_HEADERS: usize = 100;
/// See [`MAX_HEADERS`].
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// What is read of a connection at once, in bytes: more than a head may be, or files would come in small pieces.
pub const READ_BYTES: usize = 128 * 1024;

/// How long pieces of an upload are gathered before they go on their way together.
pub const GATHER: Duration = Duration::from_millis(2);

/// Wrong tokens that one address may send before it must wait.
pub const AUTH_FAILURES: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");

/// Time after which an address that must wait may send one more wrong token.
pub const AUTH_FAILURE_PERIOD: Duration = Duration::from_secs(1);

/// Addresses whose wrong tokens are counted separately. Further addresses share one count.
pub const MAX_AUTH_PEERS: usize = 4096;

/// How long requests may go on after the daemon was asked to stop.
pub const DRAIN: Duration = Duration::from_secs(10);

/// How long a stop waits for the end of the disks' helper, which ends by itself with the daemon.
pub const CLOSE_DISKS: Duration = Duration::from_secs(5);

/// What a caller without a free place is told to wait, in seconds.
pub const RETRY_AFTER_SECONDS: u64 = 5;

/// What the store keeps of a command's program and arguments, in bytes.
pub const MAX_RECORDED_PROGRAM_BYTES: usize = 4096;

/// Commands of one sandbox the store keeps, the newest ones.
pub const MAX_RECORDED_COMMANDS: usize = 1000;

/// How long the store keeps a command that has ended.
pub const RECORDED_COMMAND_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Commands on their way to the store. More are dropped and counted: history never holds a command back.
pub const MAX_UNWRITTEN_COMMANDS: usize = 4096;

/// Pages of commands that are recorded from an agent's list at once: as many as hold what an agent remembers.
pub const MAX_COMMAND_PAGES: usize = 80;

/// How long the commands of one sandbox may take to be recorded from its agent's list.
pub const RECORD_COMMANDS: Duration = Duration::from_secs(10);

/// How long the store waits for another program that has its database locked.
pub const STORE_BUSY: Duration = Duration::from_secs(5);

/// How long a reader of history waits for what is on its way to the store.
pub const HISTORY_FLUSH: Duration = Duration::from_secs(2);

/// How long history waits before it is written again where the store is away.
pub const HISTORY_RETRY: Duration = Duration::from_secs(1);

/// How often idle and parked sandboxes are looked at.
pub const KEEPER_TICK: Duration = Duration::from_secs(1);

/// Times a start tries for the next epoch, while other daemons of the same instance start as well.
pub const EPOCH_TRIES: usize = 5;

/// How long a start with a copied or restored state dir waits for the daemon to end that runs beside it.
pub const OTHER_DAEMON: Duration = Duration::from_secs(5);

/// How often what is is compared with what should be.
pub const RECONCILE_EVERY: Duration = Duration::from_secs(60);

/// Sandboxes that are looked at side by side.
pub const RECONCILE_AT_ONCE: usize = 16;

/// How long a start waits for one sandbox before it goes on without it. That one is tried again in the background.
pub const RESTORE_WAIT: Duration = Duration::from_secs(2);

/// How long a forced park lets short requests finish before it breaks them off.
pub const PARK_GRACE: Duration = Duration::from_secs(1);

/// Times a request that reads is tried again because its sandbox was parked under it.
pub const RACE_TRIES: usize = 8;

/// Pauses before a start that failed, or a sandbox that could not be restored, is tried again, from the first to the longest.
pub const START_RETRY: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30);

/// Pause before an engine that hung up is asked for its events again.
pub const EVENTS_RETRY: Duration = Duration::from_secs(2);

/// Sandboxes on one page of a list where the caller names no number, and at most.
pub const DEFAULT_PAGE: u32 = 100;
/// See [`DEFAULT_PAGE`].
pub const MAX_PAGE: u32 = 1000;

/// How long an image may take to be pulled.
pub const IMAGE_PULL: Duration = Duration::from_secs(600);

/// How long the engine may take to say anything of an image that it builds or imports. A base is imported while it is
/// being made, which takes minutes on a slow machine.
pub const IMAGE_BUILD: Duration = Duration::from_secs(3600);

/// What the engine's disk must have left for another sandbox, in bytes.
pub const MIN_FREE_DISK_BYTES: u64 = 1024 * 1024 * 1024;

/// What the engine's disk must have left beside what is written to a workspace, in bytes. More than all sandboxes write
/// between two looks at it, and what they have written and is not on the disk yet.
pub const MIN_WRITE_ROOM_BYTES: u64 = 512 * 1024 * 1024;

/// Below this a file is on the disk before its writer hears of it.
pub const TIGHT_ROOM_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// How often the engine's disk is looked at.
pub const ROOM_LOOK: Duration = Duration::from_secs(1);

/// How long a write waits to hear how much room there is.
pub const ROOM_ANSWER: Duration = Duration::from_millis(500);

/// Pause before the engine's disk is looked at again after the disks' helper did not answer.
pub const ROOM_RETRY: Duration = Duration::from_secs(10);

/// How often history is trimmed.
pub const TRIM_EVERY: Duration = Duration::from_secs(3600);

/// How long the files of an original sandbox may take to be copied.
pub const COPY_ORIGINAL: Duration = Duration::from_secs(600);

/// Longest body of a request that carries neither a command nor files, in bytes: environment, metadata and network of
/// a sandbox at their longest, escaped as far as JSON goes.
pub const MAX_CONTROL_BODY_BYTES: usize = 640 * 1024;

/// Longest body of a request that starts a command, in bytes: script, arguments and standard input at their
/// longest, escaped as far as JSON goes.
pub const MAX_COMMAND_BODY_BYTES: usize = 6 * (MAX_SCRIPT_BYTES + MAX_STDIN_BYTES) + MAX_CONTROL_BODY_BYTES;

/// How long a newcomer waits for one idle sandbox to be parked before it tries the next.
pub const MAKE_ROOM: Duration = Duration::from_secs(5);

/// Columns and rows of a terminal: at most, and where a caller names none.
pub const MAX_TERMINAL_COLS: u32 = 500;
/// See [`MAX_TERMINAL_COLS`].
pub const MAX_TERMINAL_ROWS: u32 = 200;
/// See [`MAX_TERMINAL_COLS`].
pub const DEFAULT_TERMINAL_COLS: u32 = 120;
/// See [`MAX_TERMINAL_COLS`].
pub const DEFAULT_TERMINAL_ROWS: u32 = 32;

/// What may be typed into a terminal in one request or message, in bytes.
pub const MAX_TERMINAL_INPUT_BYTES: usize = 64 * 1024;

/// How often a viewer of a terminal is asked whether it is still there.
pub const TERMINAL_PING: Duration = Duration::from_secs(20);

/// How long a viewer may say nothing, not even that it is there, before it is hung up on.
pub const SILENT_VIEWER: Duration = Duration::from_secs(60);

/// How long the end of a viewer's connection waits for the viewer's agreement to it.
pub const VIEWER_FAREWELL: Duration = Duration::from_secs(2);

/// Answers to one viewer's messages that wait to be sent.
pub const MAX_VIEWER_ANSWERS: usize = 8;

/// Pings of one viewer that wait to be answered; the next one is not read before that. A viewer that leaves the answers
/// unread for this long is disconnected.
pub const MAX_VIEWER_PINGS: usize = 256;
/// See [`MAX_VIEWER_PINGS`].
pub const UNREAD_PONGS: Duration = Duration::from_secs(10);

/// What waits to be sent to one viewer, in bytes: one message and the answers to its pings.
pub const MAX_VIEWER_UNSENT_BYTES: usize = 256 * 1024;

/// Links of one sandbox that lead there.
pub const MAX_LINKS: usize = 64;

/// How long a link may be good for where its maker says so, in milliseconds.
pub const LINK_TTL_MS: std::ops::RangeInclusive<u64> = 1000..=31_536_000_000;

/// How long it is known why a link leads nowhere any more, and of how many links.
pub const LINK_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// See [`LINK_KEPT`].
pub const MAX_ENDED_LINKS: usize = 4096;

/// How long a link's own port stays open after the link's end, where no other link needs one.
pub const DOOR_KEPT: Duration = Duration::from_secs(3600);

/// How long the gateway may take to close a port that another link needs.
pub const DOOR_SHUT: Duration = Duration::from_secs(5);

/// Listening ports of links on their way to the gateway.
pub const MAX_DOORS_ON_THE_WAY: usize = 16;

/// Connections of visitors to the gateway at once.
pub const MAX_VISITORS: usize = 1024;

/// Longest head of an answer from a sandbox, in bytes, and its headers.
pub const MAX_PREVIEW_HEAD_BYTES: usize = 256 * 1024;
/// See [`MAX_PREVIEW_HEAD_BYTES`].
pub const MAX_PREVIEW_HEADERS: usize = 256;

/// Connections to one port of a sandbox that wait for the next request, and for how long.
pub const MAX_IDLE_TUNNELS: usize = 32;
/// See [`MAX_IDLE_TUNNELS`].
pub const IDLE_TUNNEL: Duration = Duration::from_secs(30);

/// How long an agent may take to connect to a port of its sandbox, or to hand over a connection to the outside: somewhat
/// longer than it gives what it waits for itself.
pub const TUNNEL_OPEN: Duration = Duration::from_secs(15);

/// How long a tunnel whose two directions have ended may take for its last bytes, after its holder has left. The agent
/// gives them less.
pub const TUNNEL_FAREWELL: Duration = Duration::from_secs(45);

/// Parts of what is written into a tunnel that wait to be sent.
pub const TUNNEL_PARTS: usize = 2;

/// Name or address of a host that a sandbox asks for, in bytes.
pub const MAX_HOST_BYTES: usize = shared::MAX_HOST_BYTES;

/// Name of a process that an agent tells, in bytes; longer ones are cut.
pub const MAX_PROCESS_NAME_BYTES: usize = 64;

/// Listening sockets that an agent may tell of.
pub const MAX_LISTENING: usize = 256;

/// Connections at once to a published port.
pub const MAX_PUBLISHED_CONNECTIONS: usize = 128;

/// More that a publisher takes, so that a newcomer gets to where an idle connection is closed for it.
pub const PUBLISHED_NEWCOMERS: usize = 16;

/// How long nothing must have moved on a connection to a published port before it is closed for a newcomer, if its visitor
/// has ever sent anything.
pub const PUBLISHED_IDLE: Duration = Duration::from_secs(30);

/// How long an image that publishes ports may take to be had, where there is another that will do.
pub const PUBLISHER_PULL: Duration = Duration::from_secs(60);

/// How long it may take from a publisher's start until it listens. After that it is used as it is.
pub const PUBLISHER_READY: Duration = Duration::from_secs(2);

/// How long a publisher's own address may take to answer. Only from another network than the host's does it not answer.
pub const PUBLISHER_PROBE: Duration = Duration::from_millis(250);

/// How long a publisher lives at least that is not broken; one that died sooner so many times in a row is made again by the
/// next sweep only.
pub const PUBLISHER_LIFE: Duration = Duration::from_secs(10);
/// See [`PUBLISHER_LIFE`].
pub const PUBLISHER_TRIES: u32 = 3;

/// Hosts that a sandbox's network policy names, and one of them in bytes: a name and a port.
pub const MAX_NETWORK_RULES: usize = shared::MAX_NETWORK_RULES;
/// See [`MAX_NETWORK_RULES`].
pub const MAX_NETWORK_RULE_BYTES: usize = shared::MAX_NETWORK_RULE_BYTES;

/// Connections of one sandbox to the outside at once; the agent has as many places.
pub const MAX_EGRESS_CONNECTIONS: usize = 256;

/// New connections of one sandbox to the outside in a second; a moment's worth may come at once.
pub const EGRESS_CONNECTIONS_PER_SECOND: u32 = 100;

/// Names that are looked up at once for all sandboxes, each of which takes a thread until the system's resolver is done, and for
/// one sandbox: it takes very many of those to keep the others waiting.
pub const MAX_LOOKUPS: usize = 256;
/// See [`MAX_LOOKUPS`].
pub const MAX_LOOKUPS_EACH: usize = 4;

/// How long a name may take to be found.
pub const EGRESS_RESOLVE: Duration = Duration::from_secs(10);

/// How long a host may take to be connected to, all of its addresses together, and one of them.
pub const EGRESS_CONNECT: Duration = Duration::from_secs(20);
/// See [`EGRESS_CONNECT`].
pub const EGRESS_CONNECT_EACH: Duration = Duration::from_secs(5);

/// Addresses of one name that are tried.
pub const MAX_ADDRESSES_TRIED: usize = 8;

/// How long nothing may move on a connection to the outside before it is ended.
pub const EGRESS_SILENCE: Duration = Duration::from_secs(10 * 60);

/// How long a client may take from its first byte to say which host it means, where that is looked at, and in how many bytes.
pub const EGRESS_INSPECT: Duration = Duration::from_secs(10);
/// See [`EGRESS_INSPECT`].
pub const MAX_INSPECTED_BYTES: usize = 64 * 1024;

/// Longest head of plain HTTP that is looked at, in bytes.
pub const MAX_EGRESS_HEAD_BYTES: usize = 64 * 1024;

/// What is carried to or from the outside at once, in bytes, for each direction of a connection.
pub const EGRESS_PART_BYTES: usize = 32 * 1024;

/// Pauses before an agent is asked again for what its sandbox wants, from the first to the longest.
pub const EGRESS_RETRY: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(10);

/// Hosts that a sandbox was refused that are remembered, the last ones.
pub const MAX_DENIALS: usize = 100;

/// What a process is told of why it is refused, in bytes; the agent cuts what is longer.
pub const MAX_REFUSAL_BYTES: usize = 512;

/// Longest bundle of certificates, in bytes.
pub const MAX_CA_BUNDLE_BYTES: u64 = 4 * 1024 * 1024;

/// What a refusal repeats of one value of its caller's, in bytes.
pub const MAX_ECHO_BYTES: usize = 256;

/// What a refusal says of one field, and each text of its details, in bytes.
pub const MAX_PROBLEM_BYTES: usize = 1024;

/// The sentence of a refusal, in bytes.
pub const MAX_SENTENCE_BYTES: usize = 2048;

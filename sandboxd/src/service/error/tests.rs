//! Code, details and message of each error, as a response contains them.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use agent_protocol::fault::{Kind, to_status};
use agent_protocol::v1;
use bollard::errors::Error as BollardError;
use serde_json::Value;

use super::*;
use crate::engine::DiskFault;
use crate::model::{FieldError, Resource, limits};

/// Code, details in the order of their names, and message.
fn response(error: &Error) -> String {
    let PublicError { code, message, details, .. } = error.to_public();
    assert_eq!(error.to_string(), message);
    let details: BTreeMap<String, Value> = details.into_iter().collect();
    format!("{code} {} {message}", json!(details))
}

#[track_caller]
fn assert_responses<const N: usize>(rows: [(Error, &str); N]) {
    for (error, expected) in rows {
        assert_eq!(response(&error), expected, "{error:?}");
    }
}

fn path() -> v1::PathFault {
    v1::PathFault { path: "dir/a\n".into(), errno: 13 }
}

fn command() -> v1::CommandUnknown {
    v1::CommandUnknown { command_id: "cmd_x".into() }
}

fn terminal() -> v1::TerminalUnknown {
    v1::TerminalUnknown { terminal_id: "trm_x".into() }
}

fn stdin(state: v1::StdinState) -> Kind {
    Kind::StdinNotOpen(v1::StdinNotOpen { state: state.into(), written_bytes: 5 })
}

/// The error for a refusal that an agent sends.
fn refused(kind: Kind) -> Error {
    agent::Error::from(to_status(kind)).into()
}

fn said(status_code: u16) -> BollardError {
    BollardError::DockerResponseServerError { status_code, message: "said".into() }
}

fn base_error(fault: BaseFault) -> Error {
    Error::Base { base: "0f".into(), fault, source: engine::Error::Miscounted { name: "volume".into() } }
}

fn io_error() -> io::Error {
    io::Error::other("said")
}

fn away() -> agent::Error {
    agent::Error::NotConnected { waited: Duration::from_secs(1) }
}

fn failed() -> agent::Error {
    agent::Error::Failed { source: Box::new(to_status(Kind::CommandUnknown(command()))) }
}

fn late() -> agent::Error {
    agent::Error::Deadline { after: Duration::from_secs(3) }
}

fn disk(source: DiskFault) -> Error {
    engine::Error::Disk { call: "attach", name: "disk_x".into(), source }.into()
}

#[test]
fn a_rejection_by_an_agent_keeps_its_details() {
    let start = |errno| v1::StartFailed { step: "exec".into(), errno, subject: "nope".into() };
    let limit = |limit: &str| v1::LimitReached { limit: limit.into(), value: 8 };
    let bad_member = v1::ArchiveBad { member: vec![b'm', 0xff].into(), problem: "it is a device".into() };
    let kept = v1::NotPutBack { path: "a".into(), errno: 5, files: 2, kept_in: ".kept".into() };
    let rows = [
        (Kind::CommandUnknown(command()), r#"not_found {"resource":"command"} no such command"#),
        (
            Kind::CommandDiffers(command()),
            r#"already_exists {"field":"commandId"} `commandId` belongs to another command: repeat the same request, or choose another id"#,
        ),
        (
            Kind::StartFailed(start(2)),
            r#"refused {"errno":2,"step":"exec"} the command could not be started: exec "nope": No such file or directory (os error 2)"#,
        ),
        (
            Kind::StartFailed(start(0)),
            r#"refused {"errno":0,"step":"exec"} the command could not be started: exec "nope": the system gave no reason"#,
        ),
        (
            Kind::LimitReached(limit("commands")),
            r#"capacity_exhausted {"limit":"commands","value":8} the sandbox's limit of 8 commands is reached"#,
        ),
        (
            Kind::LimitReached(limit("processes")),
            r#"capacity_exhausted {"limit":"processes","value":8} the sandbox's limit of 8 processes is reached; end commands that run with :kill, or all of them with :park"#,
        ),
        (
            Kind::FieldInvalid(v1::FieldInvalid { field: "cwd".into(), problem: "is bad".into() }),
            r#"invalid_request {"field":"cwd"} `cwd` is bad"#,
        ),
        (
            Kind::TooLarge(v1::TooLarge { path: "big\"".into(), bytes: 10, max_bytes: 9 }),
            r#"too_large {"limit":9} the file "big\"" is larger than 9 bytes"#,
        ),
        (
            Kind::TooMany(v1::TooMany { what: "members in the archive".into(), limit: 7 }),
            r#"too_large {"limit":7} there are more than 7 members in the archive"#,
        ),
        (
            Kind::ReadOnlyUnavailable(v1::ReadOnlyUnavailable { errno: 38 }),
            r#"refused {"errno":38,"field":"readOnly"} `readOnly` is not supported here: the sandbox's kernel has no Landlock (error 38); nothing was run"#,
        ),
        (
            stdin(v1::StdinState::NeverOpened),
            r#"wrong_state {"state":"neverOpened","writtenBytes":5} the command's standard input is not open: it was started without `openStdin`"#,
        ),
        (
            stdin(v1::StdinState::Closed),
            r#"wrong_state {"state":"closed","writtenBytes":5} the command's standard input is not open: it was closed, by a writer or by the command itself"#,
        ),
        (
            stdin(v1::StdinState::Ended),
            r#"wrong_state {"state":"ended","writtenBytes":5} the command's standard input is not open: the command has ended"#,
        ),
        (
            Kind::StdinStalled(v1::StdinStalled { written_bytes: 5, waited_ms: 30_000 }),
            r#"deadline_exceeded {"writtenBytes":5} the command did not read for 30s, or another writer did not finish; 5 bytes were written"#,
        ),
        (Kind::TerminalUnknown(terminal()), r#"not_found {"resource":"terminal"} no such terminal"#),
        (Kind::TerminalEnded(terminal()), "wrong_state {} the terminal has ended"),
        (
            Kind::InputNotTaken(v1::InputNotTaken { taken_bytes: 4 }),
            r#"wrong_state {"takenBytes":4} the program on the terminal does not read its input; 4 bytes of it were taken"#,
        ),
        (
            Kind::OutsideWorkspace(path()),
            r#"refused {"path":"dir/a\n"} the path "dir/a\n" leads out of the workspace"#,
        ),
        (Kind::FileUnknown(path()), r#"not_found {"resource":"file"} no such file"#),
        (Kind::NotAFile(path()), r#"refused {"path":"dir/a\n"} "dir/a\n" is not a regular file"#),
        (Kind::NotADirectory(path()), r#"refused {"path":"dir/a\n"} "dir/a\n" is not a directory"#),
        (
            Kind::ConditionFailed(path()),
            r#"precondition_failed {"path":"dir/a\n"} "dir/a\n" does not meet `if-match` or `if-none-match`, or no longer has the content that was read; it was not changed"#,
        ),
        (
            Kind::AlreadyThere(path()),
            r#"already_exists {"path":"dir/a\n"} "dir/a\n" already exists and may not be replaced"#,
        ),
        (
            Kind::NotEmpty(path()),
            r#"wrong_state {"path":"dir/a\n"} the directory "dir/a\n" is not empty; remove it with `recursive=true`"#,
        ),
        (
            Kind::NotPutBack(kept),
            r#"wrong_state {"files":2,"keptIn":".kept","path":"a"} the change failed, and 2 files could not be put back because a command was changing them, "a" first; their earlier content is in ".kept""#,
        ),
        (
            Kind::TextCount(v1::TextCount { edit: 3, occurrences: 2 }),
            r#"wrong_state {"field":"edits[3].oldText","occurrences":2} `edits[3].oldText` occurs 2 times in the file, and without `replaceAll` must occur once; it was not changed"#,
        ),
        (
            Kind::ArchiveBad(bad_member),
            r#"refused {"member":"m�"} the archive was not unpacked: it is a device"#,
        ),
        (
            Kind::RangeEmpty(v1::RangeEmpty { size_bytes: 12 }),
            r#"range_not_satisfiable {"sizeBytes":12} the file has 12 bytes, and none of them is in the range"#,
        ),
        (
            Kind::NoSpace(path()),
            r#"insufficient_storage {"path":"dir/a\n"} no space left in the workspace for "dir/a\n""#,
        ),
        (
            Kind::FileFailed(path()),
            r#"refused {"errno":13,"path":"dir/a\n"} the file "dir/a\n" could not be used: Permission denied (os error 13)"#,
        ),
        (
            Kind::PortClosed(v1::PortClosed { port: 3000, errno: 111 }),
            r#"wrong_state {"port":3000} nothing answers on port 3000 in the sandbox"#,
        ),
        (
            Kind::ConnectionUnknown(v1::ConnectionUnknown { id: 9 }),
            r#"not_found {"resource":"connection"} no such connection"#,
        ),
    ];
    assert_responses(rows.map(|(kind, expected)| (refused(kind), expected)));
}

#[test]
fn an_agents_text_about_a_field_is_limited() {
    let long = v1::FieldInvalid { field: "f".repeat(900), problem: "p".repeat(900) };
    let error = refused(Kind::FieldInvalid(long));
    assert!(error.to_public().details["field"].as_str().unwrap().len() <= limits::MAX_ECHO_BYTES);
    assert!(error.to_string().len() <= limits::MAX_ECHO_BYTES + limits::MAX_PROBLEM_BYTES + 3);
}

#[test]
fn the_daemon_reports_limits_like_an_agent() {
    assert_responses([
        (Refusal::NotFound(Resource::Sandbox).into(), r#"not_found {"resource":"sandbox"} no such sandbox"#),
        (Refusal::NotFound(Resource::Port).into(), r#"not_found {"resource":"port"} no such port"#),
        (Refusal::NotFound(Resource::Link).into(), r#"not_found {"resource":"link"} no such link"#),
        (Refusal::NotFound(Resource::Orphan).into(), r#"not_found {"resource":"orphan"} no such orphan"#),
        (FieldError::new("cwd", "is bad").into(), r#"invalid_request {"field":"cwd"} `cwd` is bad"#),
        (
            Refusal::TooLarge { what: "`script`".into(), limit: 100 }.into(),
            r#"too_large {"limit":100} `script` is larger than 100 bytes"#,
        ),
        (
            Refusal::LimitReached { limit: "streams and waits".into(), value: 64 }.into(),
            r#"capacity_exhausted {"limit":"streams and waits","value":64} the sandbox's limit of 64 streams and waits is reached"#,
        ),
    ]);
}

#[test]
fn errors_of_the_service_have_details() {
    let absent = engine::Error::Absent { call: "pull", source: said(404) };
    assert_responses([
        (
            Error::Spec(SpecError::UnknownRuntime { runtime: "cobol\n".into() }),
            r#"refused {"field":"runtime","value":"cobol\n"} the runtime "cobol\n" is not offered, only node24 and python3.13"#,
        ),
        (
            Error::Spec(SpecError::ImageNotAllowed { image: "evil".into() }),
            r#"refused {"field":"image","value":"evil"} the image "evil" is not allowed here; see SANDBOXD_ALLOWED_IMAGES"#,
        ),
        (
            Error::Snapshot(SnapshotError::Full { max_bytes: 5 << 20 }),
            r#"capacity_exhausted {"limit":"snapshotBytes","value":5242880} the stored snapshots have reached 5 MiB, which SANDBOXD_SNAPSHOTS_MB allows; delete some"#,
        ),
        (
            Error::Snapshot(SnapshotError::NoSpace { source: io_error().into() }),
            "insufficient_storage {} the disk of the stored snapshots is full; the operator must free some space",
        ),
        (
            Error::Spec(SpecError::ImageUnavailable { image: "gone".into(), source: absent }),
            r#"refused {"field":"image","value":"gone"} the image "gone" is not on the engine and cannot be pulled"#,
        ),
        (
            Error::Spec(SpecError::OpenNotAllowed),
            r#"forbidden {"field":"network.mode"} the network mode `open` is not allowed here; SANDBOXD_ALLOW_OPEN_NETWORK=1 allows it"#,
        ),
        (
            Error::Spec(SpecError::NetworkHeld),
            r#"wrong_state {"field":"network.mode"} the network mode changes from or to `open` only while the sandbox is parked; park it first"#,
        ),
        (
            Error::NotPublished,
            r#"refused {"field":"style"} a port cannot be published here, because containers do not see the run dir; `style=gateway` works"#,
        ),
        (
            Error::NotReplaced { path: "d".into() },
            r#"wrong_state {"path":"d"} the directory "d" is not empty; only an empty directory can be replaced"#,
        ),
        (
            Error::Stdin(StdinError::Late { written_bytes: 6 }),
            r#"deadline_exceeded {"field":"body","writtenBytes":6} nothing was sent for 300s; 6 bytes were written"#,
        ),
        (
            Error::Stdin(StdinError::Cut { written_bytes: 6, source: io_error() }),
            r#"invalid_request {"field":"body","writtenBytes":6} the body could not be read to its end; 6 bytes were written"#,
        ),
        (
            Error::Stdin(StdinError::Broken { written_bytes: 6, source: away() }),
            r#"unavailable {"writtenBytes":6} the sandbox did not answer; at least 6 bytes were written"#,
        ),
        (
            Error::Stdin(StdinError::Broken { written_bytes: 6, source: failed() }),
            r#"internal {"writtenBytes":6} the sandbox did not answer; at least 6 bytes were written"#,
        ),
        (
            Error::Stdin(StdinError::Broken { written_bytes: 6, source: late() }),
            r#"deadline_exceeded {"writtenBytes":6} the sandbox did not answer; at least 6 bytes were written"#,
        ),
        (
            Error::InUse,
            "wrong_state {} a command or a program on a terminal runs in the sandbox; end it first, or park with `force`",
        ),
        (
            Error::NotParked,
            "wrong_state {} the sandbox is not parked, or a request is about to use it; it was not deleted",
        ),
        (
            Error::ConcurrentTransitions,
            "unavailable {} the sandbox is being parked, woken or deleted by other requests; try again",
        ),
        (
            Error::NotRestored,
            "unavailable {} the sandbox is not restored yet: the engine does not answer for its container; try again",
        ),
        (
            Error::Lost,
            r#"wrong_state {"state":"lost"} the sandbox is lost: its files are missing on the engine; restore its volume or disk there, or delete the sandbox to create a new one"#,
        ),
        (
            Error::Snapshot(SnapshotError::PresentDamaged {
                snapshot: Some("snap_0123456789abcdef".parse().unwrap()),
                source: io_error().into(),
            }),
            r#"refused {"snapshotId":"snap_0123456789abcdef"} the last snapshot of the sandbox, snap_0123456789abcdef, is damaged; run `sandboxd fsck`, and try again"#,
        ),
        (
            Error::Snapshot(SnapshotError::PresentDamaged { snapshot: None, source: io_error().into() }),
            "refused {} stored data that the sandbox's files share with a snapshot is damaged; run `sandboxd fsck`, and try again",
        ),
        (
            base_error(BaseFault::Missing),
            r#"unavailable {"base":"0f","reason":"base_missing"} the sandbox cannot start: its base 0f is missing on the engine; create a sandbox from the same snapshot, which makes it again, or restore its file"#,
        ),
        (
            base_error(BaseFault::Damaged),
            r#"unavailable {"base":"0f","reason":"base_damaged"} the sandbox cannot start: its base 0f cannot be mounted on the engine; its file is damaged, or the kernel does not support it"#,
        ),
        (Error::NoDisks, "unavailable {} the sandbox's disk cannot be used: disks do not work here any more"),
        (
            Error::CreateFailed(Arc::new(Error::DiskShort { free_bytes: 77 })),
            r#"insufficient_storage {"freeBytes":77} the engine's disk is nearly full, with 77 bytes free; the operator must free some"#,
        ),
        (Error::Full { max: 4 }, r#"capacity_exhausted {"maxConcurrent":4} all 4 sandboxes are in use"#),
        (
            Error::NoUserId,
            r#"capacity_exhausted {"maxSandboxes":2000} the daemon keeps at most 2000 sandboxes, running or parked, and has no room for another; delete one first"#,
        ),
        (
            Error::DiskShort { free_bytes: 77 },
            r#"insufficient_storage {"freeBytes":77} the engine's disk is nearly full, with 77 bytes free; the operator must free some"#,
        ),
        (
            Error::WaitDeadline { timeout_ms: 250 },
            "deadline_exceeded {} the command did not end within 250 ms; it continues to run",
        ),
        (
            Error::NotReady { missing: "engine" },
            r#"unavailable {"missing":"engine"} sandboxd is starting: engine is not ready"#,
        ),
        (
            Error::Ownership(OwnershipError::OtherEngine { sandboxes: 3 }),
            r#"unavailable {"missing":"marker"} this engine has none of the 3 sandboxes that the database lists, and no marker of this installation"#,
        ),
        (
            Error::Ownership(OwnershipError::OtherInstance { recorded: "a".into(), found: "b".into() }),
            "unavailable {} the database belongs to the instance a, and instance.key is that of b",
        ),
        (
            Error::Ownership(OwnershipError::AnotherDaemon),
            "unavailable {} another sandboxd with this instance key uses this engine",
        ),
        (
            Error::Ownership(OwnershipError::Superseded),
            "unavailable {} another sandboxd with this instance key was started after this one, which no longer acts",
        ),
        (
            Error::NotHardened { weakness: "it has capabilities" },
            "internal {} the engine did not harden the container: it has capabilities",
        ),
        (Error::HistoryUnwritten, "unavailable {} the history of commands cannot be written"),
        (Error::Unrecorded, "internal {} the route is missing among recorded acts"),
        (
            Error::Audit(audit::Error::Io {
                path: "audit".into(),
                source: io::ErrorKind::StorageFull.into(),
            }),
            r#"audit_unavailable {"full":true} the audit record cannot be written, so nothing was done that must be in it; the operator finds the cause in the daemon's log"#,
        ),
        (Error::RunDir { source: io_error() }, "internal {} the run dir cannot be used"),
        (
            Error::Randomness { source: getrandom::Error::UNSUPPORTED },
            "internal {} the system provides no random numbers",
        ),
    ]);
}

#[test]
fn the_engines_messages_appear_only_in_the_log() {
    assert_responses([
        (engine::Error::NoAnswer { address: "s".into() }.into(), "unavailable {} the engine does not answer"),
        (
            engine::Error::Conflict { call: "start", source: said(409) }.into(),
            "already_exists {} the engine has something else of this name",
        ),
        (
            engine::Error::Refused { call: "start", source: said(400) }.into(),
            "unavailable {} the engine rejected a request of sandboxd",
        ),
        (
            engine::Error::Malformed { call: "start", source: said(200) }.into(),
            "unavailable {} the engine's answer cannot be read",
        ),
        (
            engine::Error::Failed { call: "start", source: said(500) }.into(),
            "unavailable {} the engine failed",
        ),
        (engine::Error::Absent { call: "start", source: said(404) }.into(), "internal {} the engine failed"),
        (
            engine::Error::ImageMissing { image: "i".into() }.into(),
            "unavailable {} the image i is missing on the engine",
        ),
        (disk(DiskFault::Busy), "unavailable {} the workspace's disk cannot be used: it is in use"),
        (
            disk(DiskFault::Full("m".into())),
            "insufficient_storage {} the workspace's disk cannot be used: no space left for it: m",
        ),
    ]);
}

#[test]
fn an_unavailable_agent_or_store_is_not_a_bug() {
    let broken = |kind| Error::from(store::Error::new(kind, io_error()));
    assert_responses([
        (away().into(), "unavailable {} the sandbox did not answer"),
        (agent::Error::Outdated.into(), "unavailable {} the sandbox did not answer"),
        (late().into(), "deadline_exceeded {} the sandbox did not answer"),
        (failed().into(), "internal {} the sandbox did not answer"),
        (broken(store::ErrorKind::Deadline), "unavailable {} the daemon's store cannot be used"),
        (broken(store::ErrorKind::Full), "insufficient_storage {} the daemon's store cannot be used"),
        (broken(store::ErrorKind::Absent), "internal {} the daemon's store cannot be used"),
    ]);
}

#[test]
fn only_a_lost_connection_interrupts_a_request() {
    assert!(Error::from(away()).is_interrupted());
    assert!(Error::Stdin(StdinError::Broken { written_bytes: 0, source: away() }).is_interrupted());
    assert!(Error::ConcurrentTransitions.is_interrupted());
    assert!(!Error::from(late()).is_interrupted());
    assert!(!refused(Kind::CommandUnknown(command())).is_interrupted());
}

#[test]
fn a_start_is_retried_only_if_its_fault_may_be_temporary() {
    assert!(Error::from(away()).is_retried_at_start());
    assert!(Error::from(engine::Error::NoAnswer { address: "s".into() }).is_retried_at_start());
    assert!(!Error::from(failed()).is_retried_at_start());
    assert!(!Error::Ownership(OwnershipError::AnotherDaemon).is_retried_at_start());
    assert!(!refused(Kind::TerminalEnded(terminal())).is_retried_at_start());
}

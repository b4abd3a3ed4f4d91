//! Records for the tests.

use std::time::Duration;

use sandbox_api::command::EndReason;
use sandbox_api::{CommandId, SandboxId};
use sandboxd_model::read_only::{ReadOnlyViolation, WriteOperation};
use sandboxd_model::resource_limits::{Exceeded, ResourceLimit};
use sandboxd_model::{
    CommandRecord, Disk, Ended, RequestDigest, Resources, SandboxRecord, SandboxSpec, Stage, Transport,
    UidSlot,
};

/// A sandbox; those of different numbers have nothing unique in common.
pub(crate) fn sandbox(number: u32) -> SandboxRecord {
    let key = format!("chat:{number}").parse().unwrap();
    SandboxRecord {
        id: sandbox_id(number),
        slot: UidSlot::of_uid(UidSlot::FIRST_UID + number).unwrap(),
        transport: Transport::Socket,
        spec: SandboxSpec { resources: Resources::default(), ..SandboxSpec::new(key) },
        disk: Some(Disk::new("dsk_1", "3f2504e0-4f89-41d3-9a0c-0305e82c3301").unwrap()),
        stage: Stage::Creating,
        created_at_ms: 1_700_000_000_000 + i64::from(number),
        last_active_ms: 1_700_000_000_000,
        parked_at_age_ms: None,
        disk_bytes: None,
        checkpoint_pending: false,
        is_tentative: false,
    }
}

pub(crate) fn sandbox_id(number: u32) -> SandboxId {
    format!("sbx_{number:016}").parse().unwrap()
}

pub(crate) fn command_id(number: u32) -> CommandId {
    format!("cmd_{number:016}").parse().unwrap()
}

pub(crate) fn command(sandbox: &SandboxId, number: u32) -> CommandRecord {
    CommandRecord {
        sandbox: sandbox.clone(),
        id: command_id(number),
        argv: vec!["bash".to_owned(), "-c".to_owned(), format!("echo {number}")],
        cwd: "src".to_owned(),
        detached: number.is_multiple_of(2),
        passive: number.is_multiple_of(3),
        timeout_ms: 30_000,
        started_at_ms: 1_700_000_000_000 + i64::from(number),
        digest: RequestDigest::from_bytes(&[number as u8; RequestDigest::BYTES]),
        ended: None,
    }
}

/// The end of a command. That with the exit code 7 has exceeded a limit and was refused a write.
pub(crate) fn ended(exit_code: i32) -> Ended {
    let exceeded = Exceeded { limit: ResourceLimit::Output, value: 1000 };
    let refused = ReadOnlyViolation { operation: WriteOperation::Rename, path: "a/é b".into() };
    Ended {
        reason: EndReason::Exited,
        exit_code,
        signal: None,
        duration: Duration::from_millis(12),
        stdout_bytes: 3,
        stderr_bytes: 2,
        dropped_bytes: 1,
        killed_by: None,
        output_file: None,
        exceeded: (exit_code == 7).then_some(exceeded),
        read_only_violation: (exit_code == 7).then_some(refused),
        denials: None,
    }
}

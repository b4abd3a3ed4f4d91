//! Acts that the audit record has, and the operator's settings of it.

use std::path::PathBuf;

/// Defines the acts with their names in the record.
macro_rules! acts {
    ($($(#[$doc:meta])* $act:ident = $name:literal,)*) => {
        /// A security-relevant act. Names in the record never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Act {
            $($(#[$doc])* $act,)*
        }

        impl Act {
            /// All acts.
            pub const ALL: &[Self] = &[$(Self::$act,)*];

            /// The name in the record.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$act => $name,)*
                }
            }
        }
    };
}

acts! {
    /// The daemon starts.
    DaemonStart = "daemon.start",
    /// The daemon stops in order.
    DaemonStop = "daemon.stop",
    /// Requests from an address had no valid token, counted for a minute.
    AuthFail = "auth.fail",
    /// A project is created.
    ProjectCreate = "project.create",
    /// The quotas of a project change.
    ProjectChange = "project.change",
    /// A token is created.
    TokenCreate = "token.create",
    /// A child token is made.
    TokenDerive = "token.derive",
    /// A token is revoked.
    TokenRevoke = "token.revoke",
    /// The tokens of a subject are revoked.
    SubjectRevoke = "subject.revoke",
    /// A sandbox is created, or the one of the session is returned.
    SandboxCreate = "sandbox.create",
    /// Copies of a sandbox are created.
    SandboxFork = "sandbox.fork",
    /// A sandbox is parked.
    SandboxPark = "sandbox.park",
    /// A sandbox is woken.
    SandboxWake = "sandbox.wake",
    /// A sandbox is deleted with its files.
    SandboxDelete = "sandbox.delete",
    /// What belongs to no sandbox is deleted from the engine.
    OrphanDelete = "orphan.delete",
    /// A command is started.
    CommandStart = "command.start",
    /// A command is ended, or gets a signal.
    CommandKill = "command.kill",
    /// A context is opened.
    ContextOpen = "context.open",
    /// Code is run in a context.
    ContextRun = "context.run",
    /// A terminal is opened.
    TerminalOpen = "terminal.open",
    /// A viewer attaches to a terminal.
    TerminalAttach = "terminal.attach",
    /// The network policy of a sandbox changes.
    NetworkChange = "network.change",
    /// A denied host is allowed.
    NetworkAllow = "network.allow",
    /// Outbound connections of a sandbox were denied, counted for a minute.
    NetworkDeny = "network.deny",
    /// A port of a sandbox is made reachable.
    PortOpen = "port.open",
    /// A connection to a port of a sandbox is opened.
    PortTunnel = "port.tunnel",
    /// A preview link is created.
    LinkCreate = "link.create",
    /// A preview link is revoked.
    LinkRevoke = "link.revoke",
    /// A visitor opens a preview link.
    LinkOpen = "link.open",
    /// A download link is created.
    DownloadCreate = "download.create",
    /// The file of a download link is sent.
    DownloadOpen = "download.open",
    /// An archive of files is sent.
    ArchiveRead = "archive.read",
    /// A snapshot is made.
    SnapshotCreate = "snapshot.create",
    /// A sandbox gets the files of a snapshot.
    SnapshotRestore = "snapshot.restore",
    /// A snapshot is deleted.
    SnapshotDelete = "snapshot.delete",
    /// A snapshot is sent as a file.
    SnapshotExport = "snapshot.export",
    /// A snapshot is made of a file.
    SnapshotImport = "snapshot.import",
    /// The stored snapshots are checked, and damaged data is moved aside.
    SnapshotCheck = "snapshot.check",
    /// An MCP server is registered.
    McpRegister = "mcp.register",
    /// The tools of an MCP server are approved.
    McpApprove = "mcp.approve",
    /// An MCP server is removed.
    McpRemove = "mcp.remove",
    /// A sandbox with the secrets of an MCP server is opened.
    McpOpen = "mcp.open",
}

impl Act {
    /// Whether the record is on the disk before the act is done: acts that change who may do what, or that delete.
    pub fn is_synced(self) -> bool {
        matches!(
            self,
            Self::ProjectCreate
                | Self::ProjectChange
                | Self::TokenCreate
                | Self::TokenDerive
                | Self::TokenRevoke
                | Self::SubjectRevoke
                | Self::SandboxDelete
                | Self::SnapshotDelete
                | Self::OrphanDelete
        )
    }
}

impl Act {
    /// Whether the act frees something or takes a right away. It can be recorded on a full disk.
    pub fn frees(self) -> bool {
        matches!(
            self,
            Self::TokenRevoke
                | Self::SubjectRevoke
                | Self::LinkRevoke
                | Self::SandboxPark
                | Self::SandboxDelete
                | Self::SnapshotDelete
                | Self::OrphanDelete
                | Self::McpRemove
        )
    }
}

/// What the record has of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandDetail {
    /// A keyed hash.
    Hash,
    /// The hash, and the beginning of its text without the values of secret variables.
    Text,
}

/// The operator's settings of the audit record.
#[derive(Debug, Clone)]
pub struct AuditSettings {
    /// Its directory.
    pub dir: PathBuf,
    /// Size after which its oldest files are removed, in bytes. 0 keeps all.
    pub kept_bytes: u64,
    /// What it has of commands.
    pub commands: CommandDetail,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_act_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Act::ALL.iter().map(|act| act.as_str()).collect();
        assert_eq!(names.len(), Act::ALL.len());
        for name in names {
            let (noun, verb) = name.split_once('.').unwrap();
            let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
            assert!(is_word(noun) && is_word(verb) && noun != "record", "{name}");
        }
    }
}

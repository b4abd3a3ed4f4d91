//! A backend that keeps everything in memory. It shows that the contract assumes nothing of SQLite.

mod project_table;
mod quota_table;
mod repository_table;
mod snapshot_table;
mod value_table;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use sandbox_api::{CommandId, LinkId, SandboxId, SnapshotId, TokenId};
use sandboxd_model::context::ContextEntry;
use sandboxd_model::mcp::McpServerRecord;
use sandboxd_model::preview::{LinkEnd, LinkRecord};
use sandboxd_model::repository::{RepositoryKey, RepositoryRecord};
use sandboxd_model::value::{KeptValue, ValueKey};
use sandboxd_model::{
    CommandRecord, DayUsage, Ended, Orphan, ProjectName, ProjectQuotas, ProjectRecord, RestoreRecord,
    RevokedSubject, SandboxRecord, SnapshotRecord, Stage, Subject, TokenRecord,
};
use sandboxd_store::{
    AuditHead, Backend, Change, CommandTable, DaemonTable, EndedCommand, Error, ErrorKind, Identity,
    LinkTable, McpServerTable, SandboxTable, Store, Written,
};

use crate::contract::TestDatabase;

contract!(crate::memory::Memory);

/// A database that lives as long as this value.
pub(crate) struct Memory(Arc<Disk>);

impl TestDatabase for Memory {
    type Lock = ();

    async fn create() -> Self {
        Self(Arc::default())
    }

    async fn open(&self) -> Store {
        let opened = Opened { disk: Arc::clone(&self.0), is_closed: AtomicBool::new(false) };
        Store::with_backend(Arc::new(opened)).await.unwrap()
    }

    async fn lock(&self) {
        self.0.is_locked.store(true, Ordering::SeqCst);
    }

    async fn unlock(&self, (): ()) {
        self.0.is_locked.store(false, Ordering::SeqCst);
    }
}

/// What is stored, whether or not it is open.
#[derive(Debug, Default)]
struct Disk {
    tables: Mutex<Tables>,
    is_locked: AtomicBool,
}

#[derive(Debug, Default, Clone)]
struct Tables {
    sandboxes: BTreeMap<SandboxId, SandboxRecord>,
    commands: BTreeMap<(SandboxId, CommandId), Command>,
    links: BTreeMap<LinkId, LinkRecord>,
    mcp_servers: BTreeMap<(SandboxId, String), McpServerRecord>,
    snapshots: BTreeMap<SnapshotId, SnapshotRecord>,
    restores: BTreeMap<SandboxId, RestoreRecord>,
    projects: BTreeMap<ProjectName, ProjectRecord>,
    tokens: BTreeMap<TokenId, TokenRecord>,
    revoked_subjects: BTreeMap<(ProjectName, Subject), RevokedSubject>,
    quotas: BTreeMap<ProjectName, ProjectQuotas>,
    repositories: HashMap<RepositoryKey, RepositoryRecord>,
    usage: BTreeMap<(ProjectName, i32), DayUsage>,
    values: BTreeMap<(SandboxId, ValueKey), KeptValue>,
    orphans: Vec<Orphan>,
    identity: Identity,
    snapshot_store: Option<String>,
    audit_head: Option<AuditHead>,
    history: BTreeMap<(SandboxId, u64), (CommandRecord, Option<ContextEntry>)>,
    age_ms: u64,
    is_loaded: bool,
}

#[derive(Debug, Clone)]
struct Command {
    /// Increases with each start.
    number: u64,
    record: CommandRecord,
    ended_at_age_ms: Option<u64>,
}

#[derive(Debug)]
struct Opened {
    disk: Arc<Disk>,
    is_closed: AtomicBool,
}

impl Opened {
    fn tables(&self) -> Result<MutexGuard<'_, Tables>, Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Refused, "the memory is closed"));
        }
        Ok(self.disk.tables.lock().unwrap())
    }

    fn read<T>(&self, work: impl FnOnce(&Tables) -> T) -> Result<T, Error> {
        Ok(work(&*self.tables()?))
    }

    /// Stores what `work` changes, unless it fails.
    fn write<T>(&self, work: impl FnOnce(&mut Tables) -> Result<T, Error>) -> Result<T, Error> {
        let mut tables = self.tables()?;
        if self.disk.is_locked.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Busy, "the memory is locked"));
        }
        let mut changed = tables.clone();
        let done = work(&mut changed)?;
        *tables = changed;
        Ok(done)
    }
}

#[async_trait]
impl Backend for Opened {
    async fn check(&self) -> Result<(), Error> {
        self.write(|_| Ok(()))
    }

    async fn maintain(&self) {}

    async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }
}

impl Tables {
    /// Adds or replaces a sandbox.
    fn put(&mut self, record: &SandboxRecord) -> Result<(), Error> {
        for other in self.sandboxes.values().filter(|other| other.id != record.id) {
            let key = |record: &SandboxRecord| (record.spec.owner.clone(), record.spec.session_key.clone());
            if key(other) == key(record) {
                return Err(Error::taken("session_key"));
            }
            if other.slot == record.slot {
                return Err(Error::taken("uid"));
            }
        }
        self.sandboxes.insert(record.id.clone(), record.clone());
        Ok(())
    }

    /// The commands of a sandbox, the first started first.
    fn commands(&self, sandbox: &SandboxId) -> Vec<&Command> {
        let mut commands: Vec<_> =
            self.commands.iter().filter(|((of, _), _)| of == sandbox).map(|(_, found)| found).collect();
        commands.sort_by_key(|command| command.number);
        commands
    }

    fn history_of(
        &self,
        sandbox: &SandboxId,
    ) -> impl DoubleEndedIterator<Item = (u64, &(CommandRecord, Option<ContextEntry>))> {
        let range = (sandbox.clone(), 0)..=(sandbox.clone(), u64::MAX);
        self.history.range(range).map(|((_, number), record)| (*number, record))
    }

    fn start(&mut self, record: &CommandRecord) {
        let key = (record.sandbox.clone(), record.id.clone());
        let found = self.commands.get(&key);
        let is_known = found.is_some_and(|found| found.record.started_at_ms == record.started_at_ms);
        if is_known || !self.sandboxes.contains_key(&record.sandbox) {
            return;
        }
        let number = self.commands.values().map(|command| command.number + 1).max().unwrap_or_default();
        let record = CommandRecord { ended: None, ..record.clone() };
        self.commands.insert(key, Command { number, record, ended_at_age_ms: None });
    }

    fn end(&mut self, sandbox: &SandboxId, id: &CommandId, ended: &Ended, age_ms: u64) {
        if let Some(command) = self.commands.get_mut(&(sandbox.clone(), id.clone())) {
            let is_first = command.record.ended.replace(ended.clone()).is_none();
            command.ended_at_age_ms = Some(age_ms);
            let record = command.record.clone();
            if is_first {
                self.add_to_history(record, None);
            }
        }
    }

    fn add_to_history(&mut self, record: CommandRecord, entry: Option<ContextEntry>) {
        if self.sandboxes.contains_key(&record.sandbox) {
            let sandbox = record.sandbox.clone();
            let number = self.history_of(&sandbox).map(|(number, _)| number + 1).max().unwrap_or(1);
            self.history.insert((sandbox, number), (record, entry));
        }
    }
}

#[async_trait]
impl SandboxTable for Opened {
    async fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Error> {
        let mut found: Vec<_> = self.read(|tables| tables.sandboxes.values().cloned().collect())?;
        found.sort_by_key(|record| record.created_at_ms);
        Ok(found)
    }

    async fn insert_sandbox(&self, record: &SandboxRecord) -> Result<(), Error> {
        self.write(|tables| match tables.sandboxes.get(&record.id) {
            Some(_) => Err(Error::taken("id")),
            None => tables.put(record),
        })
    }

    async fn put_sandbox(&self, record: &SandboxRecord) -> Result<(), Error> {
        self.write(|tables| {
            let before = tables.sandboxes.get(&record.id);
            let is_tentative = before.map_or(record.is_tentative, |before| before.is_tentative);
            tables.put(&SandboxRecord { is_tentative, ..record.clone() })
        })
    }

    async fn set_stage(&self, id: &SandboxId, stage: Stage) -> Result<bool, Error> {
        self.write(|tables| {
            let found = tables.sandboxes.get_mut(id);
            Ok(found.map(|record| record.stage = stage).is_some())
        })
    }

    async fn set_stage_unless(&self, id: &SandboxId, stage: Stage, unless: Stage) -> Result<bool, Error> {
        self.write(|tables| {
            let found = tables.sandboxes.get_mut(id).filter(|record| record.stage != unless);
            Ok(found.map(|record| record.stage = stage).is_some())
        })
    }

    async fn confirm_sandboxes(&self, ids: &[SandboxId]) -> Result<(), Error> {
        self.write(|tables| {
            for id in ids {
                if let Some(record) = tables.sandboxes.get_mut(id) {
                    record.is_tentative = false;
                }
            }
            Ok(())
        })
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        self.write(|tables| {
            tables.sandboxes.remove(id);
            tables.commands.retain(|(sandbox, _), _| sandbox != id);
            tables.history.retain(|(sandbox, _), _| sandbox != id);
            tables.values.retain(|(sandbox, _), _| sandbox != id);
            Ok(())
        })
    }

    async fn load_sandboxes(&self, records: &[SandboxRecord]) -> Result<(), Error> {
        self.write(|tables| {
            tables.is_loaded = true;
            records.iter().try_for_each(|record| tables.put(record))
        })
    }

    async fn touch_sandboxes(&self, seen: &[(SandboxId, i64)]) -> Result<(), Error> {
        self.write(|tables| {
            for (id, at_ms) in seen {
                if let Some(record) = tables.sandboxes.get_mut(id) {
                    record.last_active_ms = *at_ms;
                }
            }
            Ok(())
        })
    }
}

#[async_trait]
impl CommandTable for Opened {
    async fn newest_commands(&self, sandbox: &SandboxId, limit: u32) -> Result<Vec<CommandRecord>, Error> {
        self.read(|tables| {
            let commands = tables.commands(sandbox);
            commands.iter().rev().take(limit as usize).map(|command| command.record.clone()).collect()
        })
    }

    async fn command(&self, sandbox: &SandboxId, id: &CommandId) -> Result<Option<CommandRecord>, Error> {
        self.read(|tables| {
            let found = tables.commands.get(&(sandbox.clone(), id.clone()));
            found.map(|command| command.record.clone())
        })
    }

    async fn unended_commands(&self, sandbox: &SandboxId) -> Result<Vec<CommandRecord>, Error> {
        self.read(|tables| {
            let commands = tables.commands(sandbox).into_iter().map(|command| &command.record);
            commands.filter(|record| record.ended.is_none()).cloned().collect()
        })
    }

    async fn written_commands(
        &self,
        sandbox: &SandboxId,
        ids: &[CommandId],
    ) -> Result<HashMap<CommandId, Written>, Error> {
        self.read(|tables| {
            let commands = tables.commands(sandbox).into_iter().map(|command| &command.record);
            let wanted = commands.filter(|record| ids.contains(&record.id));
            let written = |record: &CommandRecord| Written {
                started_at_ms: record.started_at_ms,
                has_ended: record.ended.is_some(),
            };
            wanted.map(|record| (record.id.clone(), written(record))).collect()
        })
    }

    async fn trim_commands(&self, before_age_ms: u64, kept: usize) -> Result<u64, Error> {
        self.write(|tables| {
            let before = tables.commands.len();
            tables
                .commands
                .retain(|_, command| command.ended_at_age_ms.is_none_or(|ended| ended >= before_age_ms));
            for sandbox in tables.sandboxes.keys().cloned().collect::<Vec<_>>() {
                let newest_first = tables.commands(&sandbox).into_iter().rev().enumerate();
                let surplus = newest_first.filter(|(position, command)| {
                    *position >= 2 * kept || (*position >= kept && command.record.ended.is_some())
                });
                let surplus: Vec<_> = surplus.map(|(_, command)| command.record.id.clone()).collect();
                for id in surplus {
                    tables.commands.remove(&(sandbox.clone(), id));
                }
            }
            Ok((before - tables.commands.len()) as u64)
        })
    }

    async fn ended_commands(
        &self,
        sandbox: &SandboxId,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<EndedCommand>, Error> {
        self.read(|tables| {
            let newest = tables.history_of(sandbox).rev();
            let newest = newest.filter(|(number, _)| before.is_none_or(|before| *number < before));
            let ended = newest.map(|(number, (command, in_context))| EndedCommand {
                number,
                command: command.clone(),
                in_context: in_context.clone(),
            });
            ended.take(limit as usize).collect()
        })
    }

    async fn trim_ended(&self, kept: usize) -> Result<u64, Error> {
        self.write(|tables| {
            let before = tables.history.len();
            for sandbox in tables.sandboxes.keys().cloned().collect::<Vec<_>>() {
                let surplus: Vec<u64> =
                    tables.history_of(&sandbox).rev().skip(kept).map(|(number, _)| number).collect();
                for number in surplus {
                    tables.history.remove(&(sandbox.clone(), number));
                }
            }
            Ok((before - tables.history.len()) as u64)
        })
    }

    async fn write_history(&self, changes: &[Change], age_ms: u64) -> Result<(), Error> {
        self.write(|tables| {
            for change in changes {
                match change {
                    Change::Started(record) => {
                        tables.start(record);
                        if let Some(ended) = &record.ended {
                            tables.end(&record.sandbox, &record.id, ended, age_ms);
                        }
                    }
                    Change::Ended(sandbox, id, ended) => tables.end(sandbox, id, ended, age_ms),
                    Change::InContext(record, entry) => {
                        tables.add_to_history(record.clone(), Some(entry.clone()));
                    }
                }
            }
            Ok(())
        })
    }
}

#[async_trait]
impl LinkTable for Opened {
    async fn links(&self) -> Result<Vec<LinkRecord>, Error> {
        let mut found: Vec<_> = self.read(|tables| tables.links.values().cloned().collect())?;
        found.sort_by_key(|link| link.created_at_ms);
        Ok(found)
    }

    async fn insert_link(&self, link: &LinkRecord) -> Result<(), Error> {
        self.write(|tables| match tables.links.insert(link.id.clone(), link.clone()) {
            Some(_) => Err(Error::new(ErrorKind::Refused, "there is such a link")),
            None => Ok(()),
        })
    }

    async fn end_links(&self, links: &[LinkId], end: LinkEnd, at_ms: i64) -> Result<(), Error> {
        self.write(|tables| {
            for id in links {
                if let Some(link) = tables.links.get_mut(id) {
                    link.ended.get_or_insert((end, at_ms));
                }
            }
            Ok(())
        })
    }

    async fn delete_links(&self, links: &[LinkId]) -> Result<(), Error> {
        self.write(|tables| {
            tables.links.retain(|id, _| !links.contains(id));
            Ok(())
        })
    }
}

#[async_trait]
impl McpServerTable for Opened {
    async fn mcp_servers(&self) -> Result<Vec<McpServerRecord>, Error> {
        self.read(|tables| tables.mcp_servers.values().cloned().collect())
    }

    async fn put_mcp_server(&self, server: &McpServerRecord) -> Result<(), Error> {
        self.write(|tables| {
            tables.mcp_servers.insert((server.sandbox.clone(), server.name.clone()), server.clone());
            Ok(())
        })
    }

    async fn delete_mcp_server(&self, sandbox: &SandboxId, name: &str) -> Result<(), Error> {
        self.write(|tables| {
            tables.mcp_servers.remove(&(sandbox.clone(), name.to_owned()));
            Ok(())
        })
    }
}

#[async_trait]
impl DaemonTable for Opened {
    async fn is_loaded(&self) -> Result<bool, Error> {
        self.read(|tables| tables.is_loaded)
    }

    async fn age_ms(&self) -> Result<u64, Error> {
        self.read(|tables| tables.age_ms)
    }

    async fn set_age_ms(&self, age_ms: u64) -> Result<(), Error> {
        self.write(|tables| {
            tables.age_ms = age_ms;
            Ok(())
        })
    }

    async fn identity(&self) -> Result<Identity, Error> {
        self.read(|tables| tables.identity.clone())
    }

    async fn set_identity(&self, identity: &Identity) -> Result<(), Error> {
        self.write(|tables| {
            tables.identity = identity.clone();
            Ok(())
        })
    }

    async fn snapshot_store(&self) -> Result<Option<String>, Error> {
        self.read(|tables| tables.snapshot_store.clone())
    }

    async fn set_snapshot_store(&self, store: Option<&str>) -> Result<(), Error> {
        self.write(|tables| {
            tables.snapshot_store = store.map(str::to_owned);
            Ok(())
        })
    }

    async fn audit_head(&self) -> Result<Option<AuditHead>, Error> {
        self.read(|tables| tables.audit_head.clone())
    }

    async fn set_audit_head(&self, head: &AuditHead) -> Result<(), Error> {
        self.write(|tables| {
            tables.audit_head = Some(head.clone());
            Ok(())
        })
    }

    async fn orphans(&self) -> Result<Vec<Orphan>, Error> {
        let mut found = self.read(|tables| tables.orphans.clone())?;
        found.sort_by_key(|orphan| (orphan.kind.as_str(), orphan.name.clone()));
        Ok(found)
    }

    async fn set_orphans(&self, orphans: &[Orphan]) -> Result<(), Error> {
        self.write(|tables| {
            tables.orphans = orphans.to_vec();
            Ok(())
        })
    }
}

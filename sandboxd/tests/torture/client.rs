//! A client with one session that sends all kinds of requests and verifies every result.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use sandbox_api::command::{Record, StartCommand};
use sandbox_api::files::{FileToWrite, WriteFiles};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::snapshot::{MakeSnapshot, RestoreSnapshot};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};
use tokio::time::{sleep, timeout};

use crate::chance::Chance;
use crate::ledger::{Contents, Ledger};
use crate::tree::{self, TREE};
use test_daemon::script;

/// The directory for the marks of commands.
const MARKS: &str = "marks";

/// Time limit of one action, whatever happens meanwhile.
const ACT: Duration = Duration::from_secs(60);

/// Time limit for the mark of the last started command.
const MARKED: Duration = Duration::from_secs(15);

/// The actions. More entries mean a higher probability.
const ACTS: [&str; 31] = [
    "write",
    "write",
    "write",
    "write",
    "read",
    "read",
    "read",
    "run",
    "run",
    "run",
    "start",
    "start",
    "start",
    "start",
    "reconnect",
    "grow",
    "grow",
    "grow",
    "touch",
    "park",
    "force",
    "marks",
    "snapshot",
    "snapshot",
    "restore",
    "copy",
    "fork",
    "export",
    "discard",
    "checkpoints",
    "delete",
];

/// Number of files that a session writes.
const FILES: u64 = 5;

#[derive(Debug)]
pub(crate) struct ChatClient {
    pub(crate) client: Client,
    pub(crate) key: String,
    pub(crate) chance: Chance,
    pub(crate) ledger: Ledger,
    count: u64,
    /// Per action: answered, rejected, interrupted.
    pub(crate) did: BTreeMap<&'static str, [usize; 3]>,
    pub(crate) found: Vec<String>,
}

impl ChatClient {
    pub(crate) fn new(client: Client, key: String, chance: Chance) -> Self {
        let (did, found) = (BTreeMap::new(), Vec::new());
        Self { client, key, chance, ledger: Ledger::default(), count: 0, did, found }
    }

    /// Performs one action.
    pub(crate) async fn act(&mut self) {
        let mut act = *self.chance.pick(&ACTS);
        if self.ledger.sandbox.is_none() || self.ledger.may_be_gone {
            act = "create";
        } else if self.ledger.is_restore_unanswered() {
            act = "look after restore";
        } else if act == "start" && self.ledger.unanswered().is_some() {
            act = "start again";
        }
        let done = timeout(ACT, self.perform(act)).await;
        let at = match done {
            Ok(Ok(())) => 0,
            Ok(Err(error)) => self.judge(act, &error),
            Err(_) => {
                self.complain(format!("{act} took longer than {ACT:?}"));
                2
            }
        };
        self.did.entry(act).or_default()[at] += 1;
        if at > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn perform(&mut self, act: &str) -> Result<(), Error> {
        match act {
            "create" | "reconnect" => self.create().await,
            "write" => self.write().await,
            "read" => {
                let path = self.a_path();
                self.read(&path).await
            }
            "run" => self.run().await,
            "start" => {
                self.count += 1;
                let command = format!(
                    "cmd_{}x{:012}",
                    self.key.replace(|c: char| !c.is_alphanumeric(), ""),
                    self.count
                );
                self.start(&command).await
            }
            "start again" => {
                let command = self.ledger.unanswered().unwrap();
                self.start(&command).await
            }
            "grow" => self.grow().await,
            "touch" => self.client.touch(&self.sandbox(), None).await.map(drop),
            "park" => self.client.park(&self.sandbox(), false).await.map(drop),
            "force" => {
                self.ledger.ends_all();
                self.client.park(&self.sandbox(), true).await.map(drop)
            }
            "marks" => self.check_marks().await,
            "snapshot" => self.snapshot().await,
            "restore" => match self.ledger.snapshots().len() as u64 {
                0 => self.snapshot().await,
                count => {
                    let at = self.chance.below(count) as usize;
                    self.restore(at).await
                }
            },
            "look after restore" => self.look_after_restore().await,
            "copy" => self.copy().await,
            "fork" => self.fork().await,
            "export" => self.export().await,
            "discard" => self.discard().await,
            "checkpoints" => self.set_checkpoints().await,
            _ => self.delete().await,
        }
    }

    /// Whether an error is expected: 1 if the request was rejected, 2 if it was interrupted.
    fn judge(&mut self, act: &str, error: &Error) -> usize {
        let Some(code) = error.code() else { return 2 };
        // Other sessions use up the capacity, park, and delete. A start may still be in progress.
        let may_be = [ErrorCode::CapacityExhausted, ErrorCode::Unavailable, ErrorCode::WrongState];
        if !may_be.contains(&code) {
            self.complain(format!("{act}: {error:?}"));
            if code == ErrorCode::NotFound {
                self.ledger.deleted();
            }
        }
        1
    }

    pub(crate) fn complain(&mut self, what: String) {
        let at = jiff::Timestamp::now();
        self.found.push(format!("{at} {} ({:?}): {what}", self.key, self.ledger.sandbox));
    }

    pub(crate) fn sandbox(&self) -> SandboxId {
        self.ledger.sandbox.clone().unwrap()
    }

    fn a_path(&mut self) -> String {
        format!("dir/file-{}", self.chance.below(FILES))
    }

    async fn create(&mut self) -> Result<(), Error> {
        let request = CreateSandbox { session_key: self.key.clone(), ..CreateSandbox::default() };
        let made = self.client.create_or_reconnect(&request).await?;
        if let Err(broken) = self.ledger.got(&made.sandbox_id, made.created) {
            self.complain(broken);
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<(), Error> {
        self.count += 1;
        let path = self.a_path();
        let content = format!("{} {};", self.key, self.count).repeat(1 + self.chance.below(2000) as usize);
        let file =
            FileToWrite { path: path.clone(), content_base64: BASE64_STANDARD.encode(&content), mode: None };
        self.ledger.writes(&path, &content);
        let written = self.client.write_files(&self.sandbox(), &WriteFiles { files: vec![file] }).await;
        match &written {
            Ok(_) => self.ledger.wrote(&path),
            Err(error) if error.code().is_some_and(|code| code != ErrorCode::Unavailable) => {
                self.ledger.did_not_write(&path);
            }
            Err(_) => {}
        }
        written.map(drop)
    }

    async fn read(&mut self, path: &str) -> Result<(), Error> {
        let found = self.client.read_file(&self.sandbox(), path).await?;
        let found = found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if let Err(broken) = self.ledger.read(path, found) {
            self.complain(broken);
        }
        Ok(())
    }

    async fn run(&mut self) -> Result<(), Error> {
        let mut records = self.client.run(&self.sandbox(), &script("sleep 0.05; echo $((40 + 2))")).await?;
        let mut said = String::new();
        while let Some(record) = records.next().await {
            match record? {
                Record::Stdout(output) => said.push_str(&output.data),
                Record::Exit { exit_code, reason, .. } if (exit_code, said.as_str()) != (0, "42\n") => {
                    self.complain(format!("a command said {said:?} and ended with {exit_code}, {reason:?}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Starts a command that leaves a mark after a while. A repeated request with its id is the same command.
    async fn start(&mut self, command: &str) -> Result<(), Error> {
        self.ledger.starts(command);
        // Its duration depends on its name, so that a repeated request is identical.
        let tenths = command.bytes().last().unwrap() % 6;
        let script = format!("sleep 0.{tenths}; echo {command} >> {MARKS}");
        let request = StartCommand {
            script: Some(script),
            command_id: Some(command.to_owned()),
            detached: Some(true),
            ..StartCommand::default()
        };
        self.client.start(&self.sandbox(), &request).await?;
        self.ledger.started(command);
        Ok(())
    }

    async fn check_marks(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + MARKED;
        loop {
            let marks = self.client.read_file(&self.sandbox(), MARKS).await?.unwrap_or_default();
            let checked = self.ledger.check_marks(&String::from_utf8_lossy(&marks));
            match checked {
                Ok(()) => return Ok(()),
                Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(100)).await,
                Err(broken) => {
                    self.complain(broken);
                    return Ok(());
                }
            }
        }
    }

    /// Changes the tree of files of all kinds.
    async fn grow(&mut self) -> Result<(), Error> {
        self.ledger.changes_tree();
        let seed = self.chance.below(u64::MAX);
        tree::change(&self.client, &self.sandbox(), seed).await?;
        self.look_at_tree().await
    }

    async fn look_at_tree(&mut self) -> Result<(), Error> {
        let found = tree::list(&self.client, &self.sandbox()).await?;
        if let Err(broken) = self.ledger.found_tree(found) {
            self.complain(broken);
        }
        Ok(())
    }

    /// The files as they are now. `None` if a write without a response may still take effect.
    pub(crate) async fn present_files(&mut self) -> Result<Option<Contents>, Error> {
        for path in self.ledger.paths() {
            self.read(&path).await?;
        }
        self.look_at_tree().await?;
        Ok(self.ledger.contents())
    }

    async fn snapshot(&mut self) -> Result<(), Error> {
        let Some(contents) = self.present_files().await? else { return Ok(()) };
        let made = self.client.make_snapshot(&self.sandbox(), &MakeSnapshot::default()).await?;
        self.ledger.snapshot_made(made.snapshot.snapshot_id, contents);
        Ok(())
    }

    /// Restores one of the acknowledged snapshots.
    async fn restore(&mut self, at: usize) -> Result<(), Error> {
        self.present_files().await?;
        let (snapshot_id, contents) = self.ledger.snapshots()[at].clone();
        self.ledger.restores(contents);
        let request = RestoreSnapshot { snapshot_id, force: Some(true) };
        match self.client.restore_snapshot(&self.sandbox(), &request).await {
            Ok(_) => self.ledger.restored(),
            // A restore that the daemon broke off is finished or undone later.
            Err(error)
                if error
                    .code()
                    .is_some_and(|code| ![ErrorCode::Unavailable, ErrorCode::Internal].contains(&code)) =>
            {
                self.ledger.did_not_restore();
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        let found = self.files_of(&self.sandbox()).await?;
        if let Some(expected) = self.ledger.contents()
            && expected != found
        {
            self.complain(format!("a restored snapshot has other files: {}", first_of(&expected, &found)));
        }
        Ok(())
    }

    async fn look_after_restore(&mut self) -> Result<(), Error> {
        let found = self.files_of(&self.sandbox()).await?;
        if let Err(broken) = self.ledger.found_after_restore(&found) {
            self.complain(broken);
        }
        Ok(())
    }

    pub(crate) async fn files_of(&self, sandbox: &SandboxId) -> Result<Contents, Error> {
        let mut found = Contents::new();
        for path in (0..FILES).map(|number| format!("dir/file-{number}")) {
            if let Some(bytes) = self.client.read_file(sandbox, &path).await? {
                found.insert(path, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        found.insert(TREE.into(), tree::list(&self.client, sandbox).await?);
        Ok(found)
    }

    async fn delete(&mut self) -> Result<(), Error> {
        self.ledger.may_be_gone = true;
        self.client.delete(&self.sandbox()).await?;
        self.ledger.deleted();
        Ok(())
    }

    /// After the last kill: checks that every guarantee holds, and then deletes the sandbox.
    pub(crate) async fn settle(&mut self) {
        let deadline = Instant::now() + ACT;
        loop {
            let settled = self.settle_once().await;
            match settled {
                Ok(()) => return,
                // Other sandboxes use all capacity for a moment.
                Err(error)
                    if error.code() == Some(ErrorCode::CapacityExhausted) && Instant::now() < deadline =>
                {
                    sleep(Duration::from_millis(100)).await;
                }
                Err(error) => return self.complain(format!("at the end: {error:?}")),
            }
        }
    }

    async fn settle_once(&mut self) -> Result<(), Error> {
        self.create().await?;
        if self.ledger.is_restore_unanswered() {
            self.look_after_restore().await?;
        }
        self.present_files().await?;
        self.check_marks().await?;
        for at in 0..self.ledger.snapshots().len() {
            self.restore(at).await?;
        }
        self.remove_copy().await?;
        self.delete().await
    }
}

/// The first file in which two sandboxes differ, and how.
pub(crate) fn first_of(expected: &Contents, found: &Contents) -> String {
    let paths = expected.keys().chain(found.keys());
    let differs = |path: &&String| expected.get(*path) != found.get(*path);
    let text = |of: &Contents, path: &String| of.get(path).cloned().unwrap_or_default();
    match paths.into_iter().find(differs) {
        Some(path) => {
            format!("{path} had {}", tree::difference(&text(expected, path), &text(found, path)))
        }
        None => "nothing".into(),
    }
}

//! `sandboxd try`: a throw-away sandbox over a copy of a directory.
//!
//! The directory itself is only changed at the end, with `--apply` and after a question ([`apply`]).

mod apply;
mod baseline;
mod changes;
mod copy;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::{CreateSandbox, Network, Resources};
use sandbox_api::snapshot::{MakeSnapshot, SnapshotChange};
use sandbox_api::{SandboxId, SnapshotId};
use sandbox_client::{ArchiveFormat, Client, upload_stream};
use tokio_util::io::{StreamReader, SyncIoBridge};

use self::apply::{Applied, Staged};
use self::baseline::Baseline;
use self::changes::Plan;
use super::interrupts::Interrupts;
use super::progress::{progress_bar, with_progress};
use super::{DaemonArgs, action, command, cp, diff, exit_code, shell, text};
use sandboxd_config::Config;

/// Time for which the snapshots of a trial are kept if this program is killed.
const SNAPSHOT_TTL_MS: u64 = 24 * 3600 * 1000;

/// Number of changes that are listed if they are not applied. With more, the rest is counted.
const MAX_LISTED: usize = 200;

/// Work on a copy of a directory in a throw-away sandbox, and see what it has changed
#[derive(Debug, Clone, clap::Args)]
pub struct TryArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Memory of the sandbox, such as 512m or 4g
    #[arg(long, short, value_parser = text::parse_mib)]
    memory: Option<u64>,
    /// Network of the sandbox: default, allowlist, none or open
    #[arg(long, value_name = "MODE")]
    network: Option<String>,
    /// Save the changes as a patch, for `git apply` or `patch -p1`
    #[arg(long, value_name = "FILE")]
    diff: Option<PathBuf>,
    /// Write the changes back to the directory, after a question
    #[arg(long)]
    apply: bool,
    /// Do not ask; with --apply
    #[arg(long, short, requires = "apply")]
    yes: bool,
    /// Time limit of the command, in seconds
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Do not draw a progress bar
    #[arg(long, short)]
    quiet: bool,
    /// Directory that is copied
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Program and arguments, or a bash script as one argument [default: a shell]
    #[arg(last = true)]
    command: Vec<String>,
}

/// Copies the directory, runs the command or a shell, and reports what has changed. The sandbox and its snapshots are then
/// deleted. The exit code is that of the command.
pub(crate) async fn try_out(args: TryArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let is_shell = args.command.is_empty();
    anyhow::ensure!(
        !is_shell || shell::is_possible(),
        "standard input is not a terminal; write the command after `--`"
    );
    anyhow::ensure!(
        !args.apply || args.yes || action::can_confirm(),
        "without a terminal, --apply needs --yes"
    );
    let client = args.daemon.client(config)?;
    let dir = std::fs::canonicalize(&args.dir).with_context(|| format!("{}", args.dir.display()))?;
    anyhow::ensure!(dir.is_dir(), "{} is not a directory", args.dir.display());
    // From here on, a signal must not end the program before the sandbox is deleted. SIGQUIT still does.
    let mut interrupts = Interrupts::listen()?;
    // Before any work is done that could not be saved.
    let mut patch = args.diff.as_deref().map(Patch::create).transpose()?;
    let session = session_of(&args);
    let created = client.create_or_reconnect(&session).await;
    let sandbox = created.map_err(|error| args.daemon.explain(error, config))?.sandbox_id;
    let trial = Trial { args: &args, client: &client, sandbox: &sandbox, dir };
    let outcome = trial.run(&mut interrupts, patch.as_mut()).await;
    if let Ok(Outcome { is_saved: false, .. }) | Err(Failed { has_work: true, .. }) = &outcome {
        let key = &session.session_key;
        writeln!(
            io::stderr(),
            "sandboxd: the sandbox is kept; copy from it with `sandboxd cp {key}:PATH .`, and delete it with `sandboxd stop {key}`"
        )?;
        return Ok(ExitCode::from(outcome.map_err(|failed| failed.error)?.code));
    }
    let deleted = client.delete_with_snapshots(&sandbox).await;
    // The first error is reported.
    let code = outcome.map_err(|failed| failed.error)?.code;
    deleted.context("the sandbox could not be deleted")?;
    Ok(ExitCode::from(code))
}

/// How a trial has ended.
struct Outcome {
    code: u8,
    /// Whether everything was saved that was to be saved.
    is_saved: bool,
}

/// Why a trial has failed.
struct Failed {
    error: anyhow::Error,
    /// Whether the command or the shell had begun, so that there may be work in the sandbox.
    has_work: bool,
}

/// The file of a patch. It appears complete or not at all.
struct Patch {
    temporary: tempfile::NamedTempFile,
    file: PathBuf,
}

impl Patch {
    fn create(file: &Path) -> anyhow::Result<Self> {
        let is_other = std::fs::symlink_metadata(file).is_ok_and(|meta| !meta.is_file());
        anyhow::ensure!(!is_other, "{} is not a regular file", file.display());
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let temporary = tempfile::Builder::new().prefix(".sandboxd-try-").tempfile_in(parent);
        let temporary = temporary.with_context(|| format!("{} is not writable", parent.display()))?;
        Ok(Self { temporary, file: file.to_owned() })
    }

    /// Keeps the temporary file from being copied, if the patch is saved in the directory itself.
    fn exclude_from(&self, baseline: &mut Baseline, dir: &Path) -> anyhow::Result<()> {
        if let Ok(inside) = std::fs::canonicalize(self.temporary.path())?.strip_prefix(dir) {
            baseline.forget(inside);
        }
        Ok(())
    }

    /// Saves the patches between two snapshots.
    async fn save(&mut self, client: &Client, before: &SnapshotId, after: &SnapshotId) -> anyhow::Result<()> {
        let temporary = &mut self.temporary;
        diff::each_patch(client, before, after, |patch| temporary.write_all(patch)).await?;
        temporary.as_file().sync_all()?;
        std::fs::rename(temporary.path(), &self.file)?;
        Ok(())
    }
}

fn session_of(args: &TryArgs) -> CreateSandbox {
    let resources = args.memory.map(|mib| Resources { memory_mb: Some(mib), ..Resources::default() });
    let network = args.network.clone().map(|mode| Network { mode: Some(mode), allow: None });
    CreateSandbox {
        session_key: format!("tmp:try-{}", uuid::Uuid::new_v4().simple()),
        resources,
        network,
        ..CreateSandbox::default()
    }
}

struct Trial<'a> {
    args: &'a TryArgs,
    client: &'a Client,
    sandbox: &'a SandboxId,
    dir: PathBuf,
}

/// What the command or the shell has left.
struct Work {
    code: u8,
    changes: Vec<SnapshotChange>,
    /// Why the patch could not be saved.
    unsaved: Option<anyhow::Error>,
}

impl Trial<'_> {
    async fn run(&self, interrupts: &mut Interrupts, patch: Option<&mut Patch>) -> Result<Outcome, Failed> {
        let without_work = |error| Failed { error, has_work: false };
        let with_work = |error| Failed { error, has_work: true };
        let baseline = Baseline::of(&self.dir).context("the directory cannot be read");
        let mut baseline = baseline.map_err(without_work)?;
        if let Some(patch) = &patch {
            patch.exclude_from(&mut baseline, &self.dir).map_err(without_work)?;
        }
        let copied = tokio::select! {
            biased;
            signal = interrupts.next() => return Ok(Outcome { code: signal, is_saved: true }),
            copied = self.copy(&mut baseline) => copied,
        };
        let before = copied.map_err(without_work)?;
        let work = tokio::select! {
            biased;
            signal = interrupts.next() => return Ok(Outcome { code: signal, is_saved: true }),
            work = self.work_on_copy(&before, patch) => work.map_err(with_work)?,
        };
        self.save(work, baseline, interrupts).await.map_err(with_work)
    }

    /// Lists the changes, and applies them if the user agrees.
    async fn save(
        &self,
        work: Work,
        baseline: Baseline,
        interrupts: &mut Interrupts,
    ) -> anyhow::Result<Outcome> {
        let Work { code, changes, unsaved } = work;
        // Nothing that is applied may be missing from the list.
        let limit = if self.args.apply { usize::MAX } else { MAX_LISTED };
        list(&mut io::stderr().lock(), &changes, limit)?;
        let is_applied = self.args.apply
            && !changes.is_empty()
            && (self.args.yes || self.is_confirmed(changes.len(), interrupts).await?);
        let is_complete = match is_applied {
            true => self.apply(Plan::new(&changes), baseline).await?.skipped.is_empty(),
            false => true,
        };
        match unsaved {
            Some(error) => Err(error),
            None => Ok(Outcome {
                code: if is_complete { code } else { exit_code::FAILURE },
                is_saved: is_complete,
            }),
        }
    }

    /// Copies the directory. Returns a snapshot of the copy.
    async fn copy(&self, baseline: &mut Baseline) -> anyhow::Result<SnapshotId> {
        self.upload(baseline).await.context("the directory could not be copied to the sandbox")?;
        self.snapshot().await
    }

    /// Runs the command or a shell, and saves the patch.
    async fn work_on_copy(&self, before: &SnapshotId, patch: Option<&mut Patch>) -> anyhow::Result<Work> {
        let code = match self.args.command.is_empty() {
            true => shell::attach_new(self.client, self.sandbox).await?,
            false => self.run_command().await?,
        };
        // Ends what still runs, so that nothing changes any more.
        self.client.park(self.sandbox, true).await?;
        let after = self.snapshot().await?;
        let saved = match patch {
            Some(patch) => {
                patch.save(self.client, before, &after).await.context("the patch could not be saved")
            }
            None => Ok(()),
        };
        let changes = diff::all_changes(self.client, before, &after).await?;
        Ok(Work { code, changes: changes::of_workspace(changes), unsaved: saved.err() })
    }

    async fn run_command(&self) -> anyhow::Result<u8> {
        let timeout_ms = Some(self.args.timeout.saturating_mul(1000));
        let request = StartCommand { timeout_ms, ..command::program(&self.args.command)? };
        command::forward_output(&mut self.client.run(self.sandbox, &request).await?, false).await
    }

    /// Asks whether to apply the changes. A signal is a no.
    async fn is_confirmed(&self, changes: usize, interrupts: &mut Interrupts) -> anyhow::Result<bool> {
        let question = format!("Apply {changes} changes to {}?", self.dir.display());
        let answer = tokio::task::spawn_blocking(move || action::confirm(&question));
        tokio::select! {
            biased;
            _ = interrupts.next() => Ok(false),
            answer = answer => Ok(answer??),
        }
    }

    /// Copies the directory. Skipped files are reported and not part of the baseline.
    async fn upload(&self, baseline: &mut Baseline) -> anyhow::Result<()> {
        let bar = progress_bar(!self.args.quiet, &self.dir.to_string_lossy(), None);
        let (sender, skipped) = mpsc::channel();
        let (dir, paths) = (self.dir.clone(), baseline.paths());
        let archive = cp::archive(move |archive| copy::add_all(archive, &dir, &paths, &sender));
        let archive = upload_stream(with_progress(archive, bar.clone()));
        self.client.unpack_files(self.sandbox, "", archive).await?;
        bar.finish_and_clear();
        let unreadable = baseline.unreadable().iter().map(|path| (path.clone(), "it cannot be read"));
        for (path, reason) in unreadable.chain(skipped.try_iter()).collect::<Vec<_>>() {
            writeln!(io::stderr(), "sandboxd: {} is not copied: {reason}", shown(&path))?;
            baseline.forget(&path);
        }
        Ok(())
    }

    async fn snapshot(&self) -> anyhow::Result<SnapshotId> {
        let request = MakeSnapshot { ttl_ms: Some(SNAPSHOT_TTL_MS), ..MakeSnapshot::default() };
        Ok(self.client.make_snapshot(self.sandbox, &request).await?.snapshot.snapshot_id)
    }

    async fn apply(&self, plan: Plan, baseline: Baseline) -> anyhow::Result<Applied> {
        let content = self.client.pack_files(self.sandbox, "", ArchiveFormat::TarZst).await?;
        let reader = StreamReader::new(content.map_err(io::Error::other).boxed());
        let dir = self.dir.clone();
        let unnamed = plan.unnamed.clone();
        let applied = tokio::task::spawn_blocking(move || {
            let archive = zstd::Decoder::new(SyncIoBridge::new(reader))?;
            Staged::receive(&dir, &plan.written, archive)?.apply(&dir, &plan, &baseline)
        });
        let mut applied = applied.await?.context("the changes could not be applied completely")?;
        let not_utf8 =
            unnamed.into_iter().map(|path| (PathBuf::from(path), "its name is not UTF-8".to_owned()));
        applied.skipped.extend(not_utf8);
        report(&mut io::stderr().lock(), &applied)?;
        Ok(applied)
    }
}

fn list(out: &mut impl Write, changes: &[SnapshotChange], limit: usize) -> io::Result<()> {
    for change in changes.iter().take(limit) {
        writeln!(out, "{}", diff::describe_change(change))?;
    }
    match changes.len() {
        0 => writeln!(out, "sandboxd: nothing has changed"),
        count if count > limit => writeln!(out, "sandboxd: and {} more", count - limit),
        _ => Ok(()),
    }
}

fn report(out: &mut impl Write, applied: &Applied) -> io::Result<()> {
    for (path, reason) in &applied.skipped {
        writeln!(out, "sandboxd: {} is skipped: {reason}", shown(path))?;
    }
    writeln!(out, "sandboxd: {} written, {} removed", applied.written, applied.removed)
}

fn shown(path: &Path) -> String {
    text::printable(&path.to_string_lossy())
}

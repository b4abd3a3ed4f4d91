//! `sandboxd export` and `import`: a snapshot as one file.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use futures::TryStreamExt;
use sandbox_api::SnapshotId;
use sandbox_client::{ImportOptions, upload_stream};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_util::io::{ReaderStream, StreamReader};

use super::progress::{progress_bar, with_progress};
use super::{DaemonArgs, snapshot, text};
use sandboxd_config::Config;

/// Size of the pieces that are sent.
const PIECE_BYTES: usize = 256 * 1024;

/// Write a snapshot to a file, which another daemon can import
#[derive(Debug, Clone, clap::Args)]
pub struct ExportArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Do not draw a progress bar
    #[arg(long, short)]
    quiet: bool,
    /// Snapshot (`snap_…`)
    snapshot: SnapshotId,
    /// File, or `-` for standard output [default: SNAPSHOT.snapshot]
    #[arg(value_name = "FILE|-")]
    file: Option<PathBuf>,
}

/// Make a snapshot of a file that was exported
#[derive(Debug, Clone, clap::Args)]
pub struct ImportArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Name of the snapshot [default: its name in the file]
    #[arg(long)]
    name: Option<String>,
    /// Delete the snapshot after this time, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = text::parse_span)]
    ttl: Option<std::time::Duration>,
    /// Do not draw a progress bar
    #[arg(long, short)]
    quiet: bool,
    /// Print the API's response as JSON
    #[arg(long)]
    json: bool,
    /// File, or `-` for standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
}

/// Exports a snapshot. The file appears complete or not at all.
pub(crate) async fn export(args: ExportArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let to_stdout = args.file.as_deref() == Some(Path::new("-"));
    anyhow::ensure!(
        !to_stdout || !io::stdout().is_terminal(),
        "a snapshot is not text; redirect standard output to a file"
    );
    let client = args.daemon.client(config)?;
    let content = client.export_snapshot(&args.snapshot).await;
    let content = content.map_err(|error| args.daemon.explain(error, config))?;
    let bar = progress_bar(!args.quiet, &args.snapshot.to_string(), None);
    let mut reader =
        StreamReader::new(Box::pin(with_progress(content, bar.clone()).map_err(io::Error::other)));
    if to_stdout {
        write_all(&mut reader, &mut tokio::io::stdout()).await?;
    } else {
        save(&mut reader, &target(args.file, &args.snapshot)).await?;
    }
    bar.finish_and_clear();
    Ok(ExitCode::SUCCESS)
}

/// Path of the new file. In an existing directory, its name is that of the snapshot.
fn target(file: Option<PathBuf>, snapshot: &SnapshotId) -> PathBuf {
    let name = format!("{snapshot}.snapshot");
    match file {
        Some(dir) if dir.is_dir() => dir.join(name),
        Some(file) => file,
        None => name.into(),
    }
}

/// Writes to a temporary file, and renames it when it is complete. Only its owner can read it.
async fn save(reader: &mut (impl AsyncRead + Unpin), target: &Path) -> anyhow::Result<()> {
    // A rename would replace a device such as /dev/stdout.
    let is_other = std::fs::symlink_metadata(target).is_ok_and(|meta| !meta.is_file());
    anyhow::ensure!(!is_other, "{} is not a regular file; `-` is standard output", target.display());
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(".sandboxd-export-").tempfile_in(parent);
    let temporary = temporary.with_context(|| format!("{} is not writable", parent.display()))?;
    let mut file = tokio::fs::File::from_std(temporary.as_file().try_clone()?);
    write_all(reader, &mut file).await?;
    file.sync_all().await?;
    temporary.persist(target).with_context(|| format!("{} cannot be written", target.display()))?;
    Ok(())
}

async fn write_all(
    reader: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> anyhow::Result<()> {
    tokio::io::copy(reader, to).await.context("the file is incomplete")?;
    Ok(to.flush().await?)
}

/// Imports a file.
pub(crate) async fn import(args: ImportArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let shown = args.file.display().to_string();
    let (reader, bytes): (Box<dyn AsyncRead + Send + Unpin>, _) = if args.file == Path::new("-") {
        (Box::new(tokio::io::stdin()), None)
    } else {
        let file = tokio::fs::File::open(&args.file).await;
        let file = file.with_context(|| format!("{shown} cannot be read"))?;
        let meta = file.metadata().await?;
        (Box::new(file), meta.is_file().then_some(meta.len()))
    };
    let bar = progress_bar(!args.quiet, &shown, bytes);
    let pieces = with_progress(ReaderStream::with_capacity(reader, PIECE_BYTES), bar.clone());
    let options = ImportOptions {
        name: args.name.as_deref(),
        ttl_ms: args.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
    };
    let imported = client.import_snapshot(upload_stream(pieces), &options).await;
    bar.finish_and_clear();
    let imported = imported.map_err(|error| args.daemon.explain(error, config))?;
    snapshot::print(args.json, &serde_json::to_value(&imported)?, |out| {
        writeln!(out, "{}", snapshot::describe(&imported))
    })
}

//! `sandboxd accept-engine`: records the engine as the one that the database belongs to.
//!
//! It is for an engine whose files are permanently lost, and for an engine to which they were moved by hand. The rows are
//! kept. At the next start, sandboxes whose files the engine does not have become lost. They can be listed and deleted.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use sandbox_api::SandboxId;

use super::action;
use sandboxd_config::Config;
use sandboxd_engine::Engine;
use sandboxd_state_dir::StateDir;
use sandboxd_store::{Identity, Store};

/// Use the database with an engine that does not have its sandboxes: those become lost, and stay listed
#[derive(Debug, Clone, clap::Args)]
pub struct AcceptEngineArgs {
    /// Do not ask for confirmation; required without a terminal
    #[arg(long, short)]
    yes: bool,
}

/// Asks for confirmation, and creates the marker that the next start looks for. No daemon may use the state dir.
pub(crate) async fn accept_engine(args: AcceptEngineArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let state_dir = StateDir::open(&config.state_dir).context("stop the daemon first")?;
    let instance = Arc::new(state_dir.instance()?);
    let engine = Engine::connect(config.engine.clone(), Arc::clone(&instance), None, Arc::default()).await?;
    let store = Store::open(&config.state_dir).await?;
    let accepted = accept(&args, config, &engine, &store, instance.id()).await;
    store.close().await;
    accepted
}

async fn accept(
    args: &AcceptEngineArgs,
    config: &Config,
    engine: &Engine,
    store: &Store,
    instance: &str,
) -> anyhow::Result<ExitCode> {
    let rows = store.sandboxes().await?;
    let volumes = engine.volumes().await?;
    let has_volume = |id: &SandboxId| volumes.sandboxes.iter().any(|labels| labels.id == *id);
    let missing = rows.iter().filter(|row| !has_volume(&row.id)).count();
    let question = format!(
        "The engine at {} does not have the volumes of {missing} of {} sandboxes. Sandboxes without their files become lost. They stay listed until their files are restored or they are deleted. Accept this engine?",
        config.engine,
        rows.len()
    );
    if !args.yes {
        anyhow::ensure!(action::can_confirm(), "{question} Without a terminal, confirm with --yes");
        if !action::confirm(&question)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    let previous = store.identity().await?;
    let marker = volumes.marker.or(previous.marker.clone());
    let marker = marker.map_or_else(|| SandboxId::random().map(|id| id.to_string()), Ok)?;
    engine.make_marker(&marker).await?;
    let identity = Identity {
        instance: Some(instance.to_owned()),
        engine: Some(engine.id().await?),
        marker: Some(marker),
        ..previous
    };
    store.set_identity(&identity).await?;
    writeln!(io::stdout(), "accepted; start the daemon with `sandboxd serve`")?;
    Ok(ExitCode::SUCCESS)
}

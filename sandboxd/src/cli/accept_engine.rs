//! `sandboxd accept-engine`: takes the engine for the one that the database belongs to.
//!
//! For an engine whose files are gone for good, and for one that they were moved to by hand. The rows stay: those
//! whose files the engine does not have are lost at the next start, and can be looked at and deleted.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use sandbox_api::SandboxId;

use super::act;
use crate::config::Config;
use crate::engine::Engine;
use crate::state_dir::StateDir;
use crate::store::{Identity, Store};

/// Start on an engine that has none of the sandboxes: they are kept as lost
#[derive(Debug, Clone, clap::Args)]
pub struct AcceptEngineArgs {
    /// Do not ask; needed where there is no terminal
    #[arg(long, short)]
    yes: bool,
}

/// Asks, and makes the marker that the next start looks for. No daemon may run on the state dir.
pub async fn accept_engine(args: AcceptEngineArgs, config: &Config) -> anyhow::Result<ExitCode> {
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
    let there = |id: &SandboxId| volumes.sandboxes.iter().any(|labels| labels.id == *id);
    let missing = rows.iter().filter(|row| !there(&row.id)).count();
    let question = format!(
        "The engine at {} has no volume of {missing} of {} sandboxes. Those whose files it does not have will be lost; they stay listed until their files are back or they are deleted. Accept it?",
        config.engine,
        rows.len()
    );
    if !args.yes {
        anyhow::ensure!(act::can_ask(), "{question} Nobody can be asked here, so say --yes");
        if !act::ask(&question)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    let before = store.identity().await?;
    let word = volumes.marker.or(before.marker.clone());
    let word = word.map_or_else(|| SandboxId::random().map(|id| id.to_string()), Ok)?;
    engine.make_marker(&word).await?;
    let identity = Identity {
        instance: Some(instance.to_owned()),
        engine: Some(engine.id().await?),
        marker: Some(word),
        ..before
    };
    store.set_identity(&identity).await?;
    writeln!(io::stdout(), "accepted; start the daemon with `sandboxd serve`")?;
    Ok(ExitCode::SUCCESS)
}

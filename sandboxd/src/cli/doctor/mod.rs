//! `sandboxd doctor`: looks at everything a daemon needs, without one, and says what to do where it is not
//! there. Changes nothing.

mod daemon;
mod engine;
mod finding;
mod host;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use self::finding::Level;
use crate::config::{Config, Fault, Report};
use crate::engine::Engine;
use crate::model::Instance;
use crate::model::instance::KEY_BYTES;

pub use self::engine::QuotaProbe;

/// Check everything the daemon needs and say what to do; exits with 1 where something is at fault
#[derive(Debug, Clone, clap::Args)]
pub struct DoctorArgs {
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
}

/// Runs every check and prints what was found. `quota` is tried on an engine that answers.
pub async fn doctor(
    args: DoctorArgs,
    config: &Result<Config, Vec<Fault>>,
    report: &Report,
    quota: impl QuotaProbe,
) -> anyhow::Result<ExitCode> {
    let mut found = host::settings(config, report);
    if let Ok(config) = config {
        found.extend(host::check(config));
        found.extend(daemon::check(config).await);
        // Nothing is made, so nobody's name is needed; the runtime is a check of its own.
        let nobody = Arc::new(Instance::new([0; KEY_BYTES]));
        match Engine::connect(config.engine.clone(), nobody, None, Arc::default()).await {
            Ok(engine) => found.extend(engine::check(&engine, config, quota).await),
            Err(error) => found.push(engine::unusable(&error)),
        }
    }
    let mut out = io::stdout().lock();
    if args.json {
        finding::write_json(&mut out, &found)?
    } else {
        finding::write_lines(&mut out, &found)?
    }
    out.flush()?;
    let is_faulty = found.iter().any(|finding| finding.level == Level::Fault);
    Ok(if is_faulty { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

//! `sandboxd doctor`: checks everything that a daemon needs, and says what to do about each problem. It needs no running
//! daemon. It leaves nothing behind but the agent's volume, which all daemons of this version share.

mod bases;
mod daemon;
mod engine;
mod finding;
mod host;
mod quota;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use futures::future::LocalBoxFuture;

use self::finding::{Finding, Level};
use super::interrupts::Interrupts;
use sandboxd_config::{Config, Fault, Report};
use sandboxd_engine::{Engine, Error, Facts};
use sandboxd_model::Instance;
use sandboxd_model::instance::KEY_BYTES;

/// Check everything the daemon needs and say what to do; exits with 1 if there is a fault
#[derive(Debug, Clone, clap::Args)]
pub struct DoctorArgs {
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
}

/// Runs every check and prints the findings. If a signal arrives, it prints nothing and leaves nothing behind.
///
/// The future is boxed so that only this crate compiles it.
pub fn doctor<'a>(
    args: DoctorArgs,
    config: &'a Result<Config, Vec<Fault>>,
    report: &'a Report,
) -> LocalBoxFuture<'a, anyhow::Result<ExitCode>> {
    Box::pin(check_all(args, config, report))
}

async fn check_all(
    args: DoctorArgs,
    config: &Result<Config, Vec<Fault>>,
    report: &Report,
) -> anyhow::Result<ExitCode> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key)?;
    let instance = Arc::new(Instance::new(key));
    let mut interrupts = Interrupts::listen()?;
    let (mut found, engine) = tokio::select! {
        biased;
        code = interrupts.next() => return Ok(code.into()),
        checked = check_without_changes(config, report, &instance) => checked,
    };
    if let (Ok(config), Some(engine)) = (config, engine) {
        match quota::check(&engine, config, &instance, &mut interrupts).await {
            Ok(finding) => found.push(finding),
            Err(code) => return Ok(code.into()),
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

/// Runs the checks that create nothing. Also returns the engine, if it is usable.
async fn check_without_changes(
    config: &Result<Config, Vec<Fault>>,
    report: &Report,
    instance: &Arc<Instance>,
) -> (Vec<Finding>, Option<Engine>) {
    let mut found = host::settings(config, report);
    let Ok(config) = config else { return (found, None) };
    found.extend(host::check(config));
    found.extend(daemon::check(config).await);
    match connect(config, instance).await {
        Ok((engine, facts)) => {
            found.extend(engine::check(&engine, &facts, config).await);
            found.push(bases::check(&facts, config));
            (found, Some(engine))
        }
        Err(error) => {
            found.push(engine::unusable(&error));
            (found, None)
        }
    }
}

async fn connect(config: &Config, instance: &Arc<Instance>) -> Result<(Engine, Facts), Error> {
    // No runtime is set here, because a separate check covers it.
    let engine = Engine::connect(config.engine.clone(), Arc::clone(instance), None, Arc::default()).await?;
    let facts = engine.facts().await?;
    Ok((engine, facts))
}

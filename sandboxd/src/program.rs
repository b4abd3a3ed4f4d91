//! The program: arguments, settings and exit codes.
//!
//! It is a part of the library and not of `main.rs`, because the compiler generates the code of an async function in the
//! crate that polls it: polled from `main.rs`, most of the daemon would be compiled a second time.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use crate::cli::{
    self, AcceptEngineArgs, CpArgs, DoctorArgs, ExecArgs, InspectArgs, LogsArgs, NetworkArgs, ParkArgs,
    PreviewArgs, PruneArgs, PsArgs, RunArgs, ShellArgs, StopArgs,
};
use crate::config::{Config, Fault};
use crate::engine::Engine;
use crate::model::Instance;
use crate::model::instance::KEY_BYTES;
use crate::telemetry;
use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A real bash for every AI chat, safe on a machine you own
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve the API until SIGTERM or SIGINT; sandboxes keep running
    Serve,
    Run(RunArgs),
    Exec(ExecArgs),
    Shell(ShellArgs),
    Cp(CpArgs),
    #[command(visible_aliases = ["ls", "list"])]
    Ps(PsArgs),
    Inspect(InspectArgs),
    Logs(LogsArgs),
    Preview(PreviewArgs),
    Network(NetworkArgs),
    #[command(visible_aliases = ["rm", "delete", "remove"])]
    Stop(StopArgs),
    Park(ParkArgs),
    Prune(PruneArgs),
    AcceptEngine(AcceptEngineArgs),
    /// Print every effective setting with its source, and every error
    CheckConfig,
    Doctor(DoctorArgs),
    /// Build the sandbox image
    BuildImage,
    /// Print the completion script for a shell
    Completions {
        shell: clap_complete::Shell,
    },
}

/// Runs the command of the arguments, with the settings of the environment.
pub fn main() -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            explain(&anyhow::Error::from(error).context("cannot start the runtime"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run());
    // Does not wait for blocked threads, so that the exit is not delayed.
    runtime.shutdown_background();
    code
}

async fn run() -> ExitCode {
    let args = Args::parse();
    // A value that is no Unicode is most likely a fault of the setting, which the setting's own check reports.
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    let (config, report) = Config::load(variable, names);
    let done = match (args.verb, config) {
        (Verb::CheckConfig, config) => cli::check_config(&config, &report).map_err(Into::into),
        (Verb::Completions { shell }, _) => cli::completions(shell, &mut Args::command()).map_err(Into::into),
        (Verb::Doctor(args), config) => cli::doctor(args, &config, &report).await,
        (_, Err(faults)) => refuse(&faults).map_err(Into::into),
        (Verb::Serve, Ok(config)) => serve(config).await,
        (Verb::Run(args), Ok(config)) => cli::run(args, &config).await,
        (Verb::Exec(args), Ok(config)) => cli::exec(args, &config).await,
        (Verb::Inspect(args), Ok(config)) => cli::inspect(args, &config).await,
        (Verb::Preview(args), Ok(config)) => cli::preview(args, &config).await,
        (Verb::Network(args), Ok(config)) => cli::network(args, &config).await,
        (Verb::Logs(args), Ok(config)) => cli::logs(args, &config).await,
        (Verb::Cp(args), Ok(config)) => cli::cp(args, &config).await,
        (Verb::Shell(args), Ok(config)) => cli::shell(args, &config).await,
        (Verb::Ps(args), Ok(config)) => cli::ps(args, &config).await,
        (Verb::Stop(args), Ok(config)) => cli::stop(args, &config).await,
        (Verb::Park(args), Ok(config)) => cli::park(args, &config).await,
        (Verb::Prune(args), Ok(config)) => cli::prune(args, &config).await,
        (Verb::AcceptEngine(args), Ok(config)) => cli::accept_engine(args, &config).await,
        (Verb::BuildImage, Ok(config)) => build_image(config).await,
    };
    done.unwrap_or_else(|error| {
        if cli::is_broken_pipe(&error) {
            return ExitCode::from(cli::exit_code::of_signal(SignalKind::pipe().as_raw_value()));
        }
        explain(&error);
        ExitCode::from(cli::exit_code_of(&error))
    })
}

async fn serve(config: Config) -> anyhow::Result<ExitCode> {
    telemetry::init(&config.log_filter, config.log_json);
    log_text::log_panics();
    let address = (config.bind_host.address, config.port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {}:{}", config.bind_host.text, config.port))?;
    let shutdown = CancellationToken::new();
    tokio::select! {
        ended = crate::run(config, listener, shutdown.clone()) => {
            ended?;
            Ok(ExitCode::SUCCESS)
        }
        () = second_signal(shutdown) => Ok(ExitCode::from(cli::exit_code::of_signal(SignalKind::terminate().as_raw_value()))),
    }
}

/// Begins a shutdown at the first signal, and returns at the second.
async fn second_signal(shutdown: CancellationToken) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::warn!("cannot receive signals; a signal cuts off running requests");
        return std::future::pending().await;
    };
    let mut received = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    received().await;
    tracing::info!("shutting down; finishing running requests");
    shutdown.cancel();
    received().await;
    tracing::warn!("shutting down at once; cutting off running requests");
}

async fn build_image(config: Config) -> anyhow::Result<ExitCode> {
    telemetry::init(&config.log_filter, config.log_json);
    log_text::log_panics();
    let source = crate::image_source(&config).context("the folder `sandbox-images` was not found")?;
    // An image has none of our labels, so this needs no instance key, and a daemon may be running.
    let nobody = Arc::new(Instance::new([0; KEY_BYTES]));
    let engine = Engine::connect(config.engine, nobody, None, Arc::default()).await?;
    engine.build_image(&config.image, &source).await?;
    Ok(ExitCode::SUCCESS)
}

fn refuse(faults: &[Fault]) -> io::Result<ExitCode> {
    cli::write_faults(&mut io::stderr().lock(), faults)?;
    Ok(ExitCode::FAILURE)
}

fn advice_of(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let engine = cause.downcast_ref::<crate::engine::Error>().and_then(crate::engine::Error::advice);
    let store = || cause.downcast_ref::<crate::store::Error>()?.advice();
    let service = || cause.downcast_ref::<crate::service::Error>()?.advice();
    let state_dir = || cause.downcast_ref::<crate::state_dir::Error>()?.advice();
    engine.or_else(store).or_else(service).or_else(state_dir)
}

/// Prints what went wrong, why and, if known, what to do.
fn explain(error: &anyhow::Error) {
    let mut message = format!("sandboxd: {}\n", cli::printable(&error.to_string()));
    for cause in error.chain().skip(1) {
        message.push_str(&format!("  because {}\n", cli::printable(&cause.to_string())));
    }
    if let Some(advice) = error.chain().find_map(advice_of) {
        message.push_str(&format!("  {advice}\n"));
    }
    // If standard error is closed, the error cannot be reported.
    let _ = io::stderr().write_all(message.as_bytes());
}

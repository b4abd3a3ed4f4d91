//! The program: arguments, settings and exit codes.
//!
//! This module is in the library and not in `main.rs`. The compiler generates the code of an async function in the
//! crate that polls it. If `main.rs` polled it, most of the daemon would be compiled twice.

use std::io::{self, Write};
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;

use crate::cli::{self, ClientCommand, DoctorArgs};
use crate::config::{Config, Fault};
use crate::engine::Engine;
use crate::model::Instance;
use crate::model::instance::KEY_BYTES;
use crate::telemetry;
use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A real bash for every AI chat, safe on a machine you own
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API until SIGTERM or SIGINT; sandboxes keep running
    Serve,
    #[command(flatten)]
    Client(ClientCommand),
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

/// Runs the command that the arguments name, with the settings from the environment.
pub fn main() -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            print_error(&anyhow::Error::from(error).context("cannot start the async runtime"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run());
    // Does not wait for blocked threads, which would delay the exit.
    runtime.shutdown_background();
    telemetry::end();
    code
}

/// The daemon's tasks run on half of the processors. A command passes through several tasks, and each that is on another thread
/// has to be woken there. The other half is for what the daemon serves: commands run on the same machine.
fn runtime() -> io::Result<Runtime> {
    let processors = available_parallelism().map_or(1, NonZero::get);
    Builder::new_multi_thread().worker_threads((processors / 2).max(1)).enable_all().build()
}

async fn run() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|error| cli::with_safe_suggestion(error).exit());
    // A value that is not Unicode is most likely invalid. The check of that setting reports it.
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    let (config, report) = Config::load(variable, names);
    let done = match (args.command, config) {
        (Command::CheckConfig, config) => cli::check_config(&config, &report).map_err(Into::into),
        (Command::Completions { shell }, _) => {
            cli::completions(shell, &mut Args::command()).map_err(Into::into)
        }
        (Command::Doctor(args), config) => cli::doctor(args, &config, &report).await,
        (_, Err(faults)) => report_faults(&faults).map_err(Into::into),
        (Command::Serve, Ok(config)) => serve(config).await,
        (Command::Client(command), Ok(config)) => command.execute(&config).await,
        (Command::BuildImage, Ok(config)) => build_image(config).await,
    };
    done.unwrap_or_else(|error| {
        if cli::is_broken_pipe(&error) {
            return ExitCode::from(cli::exit_code::of_signal(SignalKind::pipe().as_raw_value()));
        }
        print_error(&error);
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
        result = crate::run(config, listener, shutdown.clone()) => {
            result?;
            Ok(ExitCode::SUCCESS)
        }
        () = second_signal(shutdown) => Ok(ExitCode::from(cli::exit_code::of_signal(SignalKind::terminate().as_raw_value()))),
    }
}

/// Starts a shutdown at the first signal, and returns at the second.
async fn second_signal(shutdown: CancellationToken) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::warn!("cannot receive signals; a signal interrupts running requests");
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
    tracing::warn!("shutting down immediately; interrupting running requests");
}

async fn build_image(config: Config) -> anyhow::Result<ExitCode> {
    telemetry::init(&config.log_filter, config.log_json);
    log_text::log_panics();
    let source =
        config.image_source.context("`sandbox-images` was not found; set SANDBOXD_IMAGE_DIR to it")?;
    // Images have no labels of an instance, so this needs no instance key, and a daemon may be running.
    let instance = Arc::new(Instance::new([0; KEY_BYTES]));
    let engine = Engine::connect(config.engine, instance, None, Arc::default()).await?;
    engine.build_image(&config.image, &source).await?;
    Ok(ExitCode::SUCCESS)
}

fn report_faults(faults: &[Fault]) -> io::Result<ExitCode> {
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

/// Prints an error, its causes and, if known, what to do.
fn print_error(error: &anyhow::Error) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_names_have_synonyms() {
        let args = Args::command();
        for (name, command) in cli::SYNONYMS {
            assert!(args.find_subcommand(name).is_none(), "{name} is a command");
            assert!(args.find_subcommand(command).is_some(), "{name}: {command} is not a command");
        }
    }
}

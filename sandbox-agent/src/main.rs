//! The agent: PID 1 of every sandbox.
//!
//! The agent connects to sandboxd, runs commands and keeps their output, reads and writes files, and reaps every
//! child process that ends. It trusts only sandboxd. It is not dumpable and wipes its secret from its environment, so
//! commands under the same uid can neither trace it nor read the secret. In reading order:
//!
//! - [`connection`]: the connection to sandboxd; [`rpc`]: the calls that it serves
//! - [`commands`], [`registry`], [`command`], [`spawn`], [`posix_spawn`], [`supervisor`]: starting and following a
//!   command
//! - [`stages`], [`stage_memory`], [`stage_relay`]: what the stages of a pipeline write to each other
//! - [`capture`], [`output`], [`output_files`], [`primary_reader`], [`log_position`], [`follow`]: its output
//! - [`stdin`], [`stdin_writer`], [`read_only`], [`write_attempts`]: its input, and the read-only workspace
//! - [`termination`], [`members`], [`mark`], [`leftovers`], [`reaper`], [`oom`], [`proc_protection`]: its end
//! - [`waiting_shells`]: a bash that waits for the next command
//! - [`contexts`]: interpreters that keep their state
//! - [`terminals`]: interactive programs with a screen
//! - [`tunnels`]: byte streams to servers in the sandbox, and outbound connections through the agent's proxy
//! - [`files`]: the workspace; [`snapshots`]: all files of the sandbox
//! - [`environment`], [`limits`], [`signals`], [`time_slice`], [`text`]: settings and process set-up
//! - [`disks`]: a helper that runs beside the sandboxes and creates their file systems

mod capture;
mod command;
mod commands;
mod connection;
mod contexts;
mod disks;
mod environment;
mod files;
mod follow;
mod leftovers;
mod limits;
mod log_position;
mod loop_count;
mod mark;
mod members;
mod oom;
mod output;
mod output_files;
mod posix_spawn;
mod primary_reader;
mod proc_protection;
mod read_only;
mod reaper;
mod registry;
mod resource_limits;
mod rpc;
mod secrets;
mod signals;
mod snapshots;
mod spawn;
mod stage_memory;
mod stage_relay;
mod stages;
mod stdin;
mod stdin_writer;
mod supervisor;
mod terminals;
mod termination;
mod text;
mod time_slice;
mod tunnels;
mod waiting_shells;
mod write_attempts;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::sync::Notify;

use crate::commands::Commands;
use crate::contexts::Contexts;
use crate::environment::Settings;
use crate::leftovers::Leftovers;
use crate::reaper::Reaper;
use crate::rpc::FileService;
use crate::terminals::Terminals;
use crate::tunnels::Tunnels;
use crate::waiting_shells::WaitingShells;

/// Threads for file operations. They never exit, because no new thread can start when the sandbox is at its process
/// limit. Four threads stay available for short calls.
const FILE_THREADS: usize = 4 + limits::MAX_HEAVY_CALLS + limits::MAX_UNPACKS + limits::MAX_SNAPSHOTS;
const FILE_THREAD_KEEP_ALIVE: Duration = Duration::from_secs(365 * 24 * 3600);

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == stage_relay::SUBCOMMAND) {
        return stage_relay::run(arguments);
    }
    oom::open_own_score();
    let settings = Settings::from_env();
    environment::wipe_own();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["disks", dir] => disks::serve(Path::new(dir)),
        ["dial"] => start().and_then(|runtime| runtime.block_on(connection::bridge_stdio())),
        _ => start().and_then(|runtime| runtime.block_on(serve(settings))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// Makes the process not dumpable. Must run before anything else in the sandbox, so that no command can read the
/// secret from the agent's memory.
fn make_undumpable() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn start() -> io::Result<tokio::runtime::Runtime> {
    signals::ignore_all()?;
    make_undumpable()?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(FILE_THREADS)
        .thread_keep_alive(FILE_THREAD_KEEP_ALIVE)
        .build()
}

/// Serves until sandboxd requests a shutdown. SIGTERM is ignored, so no command can end the agent. The engine stops
/// it with SIGKILL.
async fn serve(settings: Result<Settings, &'static str>) -> io::Result<()> {
    let settings = settings.map_err(|name| io::Error::other(format!("{name} is not set")))?;
    if let Err(error) = time_slice::shorten() {
        report(&error);
    }
    // Starts a thread that must stay outside the Landlock domain.
    if let Err(error) = oom::start_raising() {
        report(&error);
    }
    // Must come before any other thread. The domain applies to this thread and to everything that it starts.
    if let Err(error) = proc_protection::enter() {
        report(&io::Error::other(error.to_string()));
    }
    let child_ended = Reaper::subscribe()?;
    let reaper = Arc::new(Reaper::default());
    let tunnels = Tunnels::new();
    // Must come before the first command, which could take the port.
    if settings.has_proxy {
        match tunnels.start_proxy(limits::PROXY_PORT).await {
            Ok(()) => environment::preset_proxy(limits::PROXY_PORT),
            Err(error) => report(&error),
        }
    }
    let waiting_shells = Arc::new(WaitingShells::new(spawn::bash(), Arc::clone(&reaper)));
    let leftovers = Arc::new(Leftovers::new(Arc::clone(&waiting_shells)));
    let workspace = files::open(&settings.workspace)?;
    // Must come before the first command, which could give another file the path of a recorded one.
    snapshots::put_modes_back(&workspace);
    if settings.waiting_shells {
        tokio::spawn(Arc::clone(&waiting_shells).run());
    }
    let commands = Commands::new(settings.workspace.clone(), Arc::clone(&reaper), &leftovers, waiting_shells);
    let service = rpc::Service {
        commands,
        contexts: Contexts::new(settings.workspace.clone(), Arc::clone(&reaper), &leftovers),
        terminals: Terminals::new(settings.workspace.clone(), Arc::clone(&reaper), &leftovers),
        files: FileService::new(workspace, files::open_outputs(&settings.workspace)),
        tunnels,
        shutdown: Arc::new(Notify::new()),
    };
    // Starts the first file thread while the process limit certainly allows it.
    tokio::task::spawn_blocking(|| ()).await.map_err(io::Error::other)?;
    let shutdown = Arc::clone(&service.shutdown);
    let connection = async {
        match &settings.socket {
            Some(socket) => connection::dial_out(socket, &settings.secret, &service).await,
            None => match connection::bind_dial_name() {
                Ok(listener) => connection::accept_dialed(listener, &settings.secret, &service).await,
                Err(error) => report(&error),
            },
        }
    };
    tokio::select! {
        () = reaper.run(child_ended) => {}
        () = connection => {}
        () = shutdown.notified() => {}
    }
    // When PID 1 exits, the kernel ends every other process of the sandbox.
    Ok(())
}

#[expect(clippy::print_stderr, reason = "standard error is the agent's only log")]
fn report(error: &io::Error) {
    eprintln!("sandbox-agent: {error}");
}

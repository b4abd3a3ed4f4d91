//! The agent: PID 1 of every sandbox.
//!
//! It dials sandboxd, runs commands and keeps their output, reads and writes files, and collects every child
//! that ends. It trusts sandboxd and nobody else: it is not dumpable and wipes its secret from its
//! environment, so commands under the same uid can neither trace it nor read that. In reading order:
//!
//! - [`link`]: the connection to sandboxd; [`rpc`]: what can be asked over it
//! - [`commands`], [`command`], [`spawn`], [`posix_spawn`], [`capture`], [`output`], [`follow`], [`supervisor`]: a command's life
//! - [`stdin`], [`read_only`]: what a command may be given, and what it may be denied
//! - [`ladder`], [`members`], [`mark`], [`leftovers`], [`reaper`], [`oom`], [`own_domain`]: its end
//! - [`terminals`]: programs that people look at and type into
//! - [`tunnels`]: streams of bytes to servers in the sandbox, and out of it by the agent's proxy
//! - [`files`]: the workspace; [`environment`], [`limits`], [`signals`], [`slice`]
//! - [`disks`]: not in a sandbox but beside them, the helper that makes their file systems

mod capture;
mod command;
mod commands;
mod disks;
mod environment;
mod files;
mod follow;
mod kept;
mod ladder;
mod leftovers;
mod limits;
mod link;
mod mark;
mod members;
mod oom;
mod output;
mod own_domain;
mod place;
mod posix_spawn;
mod read_only;
mod reaper;
mod rpc;
mod signals;
mod slice;
mod spawn;
mod stdin;
mod supervisor;
mod terminals;
mod text;
mod tunnels;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::sync::Notify;

use crate::commands::Commands;
use crate::environment::Settings;
use crate::files::Workspace;
use crate::leftovers::Leftovers;
use crate::reaper::Reaper;
use crate::rpc::FileService;
use crate::terminals::Terminals;
use crate::tunnels::Tunnels;

/// Threads for file work. They stay, because once the sandbox is full of processes no new one could start.
/// Four are left to short calls, whatever goes on beside them.
const FILE_THREADS: usize = 4 + limits::MAX_HEAVY_CALLS + limits::MAX_UNPACKS;
const FILE_THREAD_KEEP_ALIVE: Duration = Duration::from_secs(365 * 24 * 3600);

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|verb| verb == read_only::VERB) {
        return read_only::become_command(arguments);
    }
    oom::open_own_score();
    let settings = Settings::from_env();
    environment::wipe_own();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["disks", dir] => disks::serve(Path::new(dir)),
        ["dial"] => start().and_then(|runtime| runtime.block_on(link::bridge_stdio())),
        _ => start().and_then(|runtime| runtime.block_on(serve(settings))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Before anything of a sandbox runs, because only then is the secret in our memory out of the commands' reach.
fn hide() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn start() -> io::Result<tokio::runtime::Runtime> {
    signals::ignore_all()?;
    hide()?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(FILE_THREADS)
        .thread_keep_alive(FILE_THREAD_KEEP_ALIVE)
        .build()
}

/// Runs until sandboxd asks for the end. SIGTERM is ignored as well, so no command can end the agent; the
/// engine stops it with SIGKILL.
async fn serve(settings: Result<Settings, &'static str>) -> io::Result<()> {
    let settings = settings.map_err(|name| io::Error::other(format!("{name} is not set")))?;
    if let Err(error) = slice::shorten() {
        complain(&error);
    }
    // This thread alone is to be outside of the domain.
    if let Err(error) = oom::start_raising() {
        complain(&error);
    }
    // Before any other thread: the domain holds for this one and for what it starts.
    if let Err(error) = own_domain::enter() {
        complain(&io::Error::other(error.to_string()));
    }
    let child_ended = Reaper::subscribe()?;
    let reaper = Arc::new(Reaper::default());
    let tunnels = Tunnels::new();
    // Before the first command, which could take the port.
    if settings.has_proxy {
        match tunnels.start_proxy(limits::PROXY_PORT).await {
            Ok(()) => environment::preset_proxy(limits::PROXY_PORT),
            Err(error) => complain(&error),
        }
    }
    let leftovers = Arc::new(Leftovers::default());
    let service = rpc::Service {
        commands: Commands::new(settings.workspace.clone(), Arc::clone(&reaper), &leftovers),
        terminals: Terminals::new(settings.workspace.clone(), Arc::clone(&reaper), &leftovers),
        files: FileService::new(Arc::new(Workspace::open(&settings.workspace)?)),
        tunnels,
        shutdown: Arc::new(Notify::new()),
    };
    // The first file thread, while there is certainly room for it.
    tokio::task::spawn_blocking(|| ()).await.map_err(io::Error::other)?;
    let shutdown = Arc::clone(&service.shutdown);
    let link = async {
        match &settings.socket {
            Some(socket) => link::dial_out(socket, &settings.secret, &service).await,
            None => match link::bind_dial_name() {
                Ok(listener) => link::accept_dialled(listener, &settings.secret, &service).await,
                Err(error) => complain(&error),
            },
        }
    };
    tokio::select! {
        () = reaper.run(child_ended) => {}
        () = link => {}
        () = shutdown.notified() => {}
    }
    // With PID 1 the kernel ends every other process of the sandbox.
    Ok(())
}

#[expect(clippy::print_stderr, reason = "the agent has no other place for its last words")]
fn complain(error: &io::Error) {
    eprintln!("sandbox-agent: {error}");
}

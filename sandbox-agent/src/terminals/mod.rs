//! The terminals of the sandbox, running and ended.
//!
//! Checks ids and limits, and decides how long terminals are kept. A terminal runs without viewers until its program
//! ends or a client closes it. The newest ended terminals are kept, so that clients can see how they ended. In
//! reading order: [`terminal`], [`pty`], [`supervisor`], [`input`]; [`output`], [`history`], [`scan`], [`screen`] for its
//! output; [`viewer`], [`replay`].

mod history;
mod input;
mod output;
mod pty;
mod replay;
mod scan;
mod screen;
mod supervisor;
mod terminal;
mod viewer;

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use rustix::process::Signal;
use tokio::time::sleep;

use self::screen::Size;
use self::terminal::{Spec, Terminal};
use self::viewer::Viewer;
use crate::commands::{check_id, invalid, is_process_limit, start_error};
use crate::leftovers::{Leftovers, Running};
use crate::limits::{
    MAX_COLS, MAX_ENDED_TERMINALS, MAX_INPUT_BYTES, MAX_ROWS, MAX_TERMINALS, MAX_VIEWERS, REAP_PAUSE,
    REAP_TRIES,
};
use crate::reaper::Reaper;
use crate::secrets::Secrets;
use crate::termination;

/// Default program: a login shell.
const SHELL: [&str; 2] = ["bash", "-l"];

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<String, Arc<Terminal>>,
    /// Ids in the order in which they were opened.
    order: VecDeque<String>,
}

/// The terminals of this sandbox.
#[derive(Debug)]
pub(crate) struct Terminals {
    workspace: PathBuf,
    reaper: Arc<Reaper>,
    leftovers: Arc<Leftovers>,
    table: Mutex<Table>,
}

impl Terminals {
    pub(crate) fn new(workspace: PathBuf, reaper: Arc<Reaper>, leftovers: &Arc<Leftovers>) -> Arc<Self> {
        let leftovers = Arc::clone(leftovers);
        let terminals = Arc::new(Self { workspace, reaper, leftovers, table: Mutex::default() });
        let set: Arc<dyn Running> = terminals.clone();
        terminals.leftovers.spare(Arc::downgrade(&set));
        terminals
    }

    /// Returns the terminal with this id.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Terminal>, Kind> {
        let found = self.lock().by_id.get(id).cloned();
        found.ok_or_else(|| Kind::TerminalUnknown(v1::TerminalUnknown { terminal_id: id.into() }))
    }

    /// Returns all terminals, the newest first.
    pub(crate) fn all(&self) -> Vec<Arc<Terminal>> {
        let table = self.lock();
        table.order.iter().rev().filter_map(|id| table.by_id.get(id)).cloned().collect()
    }

    /// Number of terminals that run anything other than an idle shell.
    pub(crate) fn busy(&self) -> usize {
        self.all().iter().filter(|terminal| terminal.is_busy()).count()
    }

    /// Opens a terminal, or returns the one with this id.
    pub(crate) async fn open(
        self: &Arc<Self>,
        request: v1::OpenTerminalRequest,
    ) -> Result<Arc<Terminal>, Kind> {
        let mut opened = self.try_open(request.clone());
        if !opened.as_ref().is_err_and(is_process_limit) {
            return opened;
        }
        self.leftovers.end().await;
        for _ in 0..REAP_TRIES {
            opened = self.try_open(request.clone());
            if !opened.as_ref().is_err_and(is_process_limit) {
                break;
            }
            sleep(REAP_PAUSE).await;
        }
        opened
    }

    fn try_open(self: &Arc<Self>, request: v1::OpenTerminalRequest) -> Result<Arc<Terminal>, Kind> {
        check_id("terminal_id", &request.terminal_id)?;
        if let Ok(terminal) = self.get(&request.terminal_id) {
            return Ok(terminal);
        }
        if self.all().iter().filter(|terminal| terminal.is_running()).count() >= MAX_TERMINALS {
            return Err(limit_reached("running terminals", MAX_TERMINALS));
        }
        let size = size_of(request.size)?;
        let is_shell = request.argv.is_none();
        let argv = match request.argv {
            None => SHELL.map(str::to_owned).into(),
            Some(argv) => std::iter::once(argv.program).chain(argv.args).collect(),
        };
        let cwd = self.workspace.join(&request.cwd);
        let spec = Spec { id: request.terminal_id, argv, cwd, is_shell };
        self.launch(spec, &request.env, size, Secrets::on_terminal(request.secrets))
    }

    fn launch(
        self: &Arc<Self>,
        spec: Spec,
        env: &HashMap<String, String>,
        size: Size,
        secrets: Option<Arc<Secrets>>,
    ) -> Result<Arc<Terminal>, Kind> {
        let (terminal, requests) = Terminal::start(spec, env, size).map_err(start_error)?;
        let status = self.reaper.expect(terminal.main());
        let mut table = self.lock();
        table.by_id.insert(terminal.id().to_owned(), Arc::clone(&terminal));
        table.order.push_back(terminal.id().to_owned());
        drop(table);
        let (terminals, opened) = (Arc::clone(self), Arc::clone(&terminal));
        tokio::spawn(async move {
            supervisor::run(opened, status, requests, secrets).await;
            terminals.drop_surplus();
        });
        Ok(terminal)
    }

    /// Creates a viewer of a terminal. It counts towards the limit while it exists.
    pub(crate) fn view(&self, request: &v1::ViewTerminalRequest) -> Result<Viewer, Kind> {
        let terminal = self.get(&request.terminal_id)?;
        let permit = Arc::clone(&terminal.viewers).try_acquire_owned();
        let permit = permit.map_err(|_| limit_reached("viewers of a terminal", MAX_VIEWERS))?;
        Ok(Viewer::new(terminal, request, permit))
    }

    /// Sends input to a terminal.
    pub(crate) async fn input(&self, request: &v1::TerminalInputRequest) -> Result<(), Kind> {
        if request.data.len() > MAX_INPUT_BYTES {
            return Err(invalid("data", format!("is longer than {MAX_INPUT_BYTES} bytes")));
        }
        self.get(&request.terminal_id)?.input(&request.data).await
    }

    pub(crate) fn resize(&self, request: &v1::ResizeTerminalRequest) -> Result<(), Kind> {
        self.get(&request.terminal_id)?.resize(size_of(request.size)?)
    }

    /// Ends a terminal and everything that was started from it, and drops it.
    pub(crate) async fn close(&self, id: &str) -> Result<(), Kind> {
        let terminal = self.get(id)?;
        // A shell passes SIGHUP on to its jobs and exits. It would ignore SIGTERM.
        terminal.request_end(Signal::HUP);
        terminal.ended().await;
        // Ends processes that detached from the terminal, and those that a program left behind.
        termination::end(terminal.as_ref(), Signal::HUP).await;
        let mut table = self.lock();
        table.by_id.remove(id);
        table.order.retain(|known| known != id);
        Ok(())
    }

    /// Drops the oldest ended terminals over the limit.
    fn drop_surplus(&self) {
        let mut table = self.lock();
        let Table { by_id, order } = &mut *table;
        let has_ended = |id: &String| by_id.get(id).is_some_and(|terminal| !terminal.is_running());
        let ended: Vec<String> = order.iter().filter(|id| has_ended(id)).cloned().collect();
        for id in ended.iter().take(ended.len().saturating_sub(MAX_ENDED_TERMINALS)) {
            by_id.remove(id);
            order.retain(|known| known != id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running for Terminals {
    fn targets(&self) -> Vec<Arc<dyn termination::Target + Send + Sync>> {
        let running = self.all().into_iter().filter(|terminal| terminal.is_running());
        running.map(|terminal| terminal as Arc<dyn termination::Target + Send + Sync>).collect()
    }
}

fn limit_reached(limit: &str, value: usize) -> Kind {
    Kind::LimitReached(v1::LimitReached { limit: limit.into(), value: value as u64 })
}

fn size_of(wire: Option<v1::TerminalSize>) -> Result<Size, Kind> {
    let wire = wire.unwrap_or_default();
    Ok(Size { cols: extent("cols", wire.cols, MAX_COLS)?, rows: extent("rows", wire.rows, MAX_ROWS)? })
}

fn extent(field: &str, value: u32, max: u16) -> Result<NonZeroU16, Kind> {
    let extent = u16::try_from(value).ok().filter(|value| *value <= max).and_then(NonZeroU16::new);
    extent.ok_or_else(|| invalid(field, format!("must be from 1 to {max}")))
}

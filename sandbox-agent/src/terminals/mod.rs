//! The terminals of the sandbox, running and ended.
//!
//! Owns admission (ids, limits) and retention. A terminal goes on without viewers, until its program ends or somebody
//! closes it; then it is kept for those who want to know how it ended, the newest ones. In reading order:
//! [`terminal`], [`pty`], [`life`], [`typing`]; [`history`], [`scan`], [`screen`] for what it shows; [`viewer`], [`replay`].

mod history;
mod life;
mod pty;
mod replay;
mod scan;
mod screen;
mod terminal;
mod typing;
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
use crate::commands::{check_id, invalid, is_process_limit, refusal_of};
use crate::ladder;
use crate::leftovers::{Leftovers, Running};
use crate::limits::{
    COLLECT_PAUSE, COLLECT_TRIES, MAX_COLS, MAX_ENDED_TERMINALS, MAX_INPUT_BYTES, MAX_ROWS, MAX_TERMINALS,
    MAX_VIEWERS,
};
use crate::reaper::Reaper;

/// What runs where nobody names a program: a shell as somebody finds it who logs in.
const SHELL: [&str; 2] = ["bash", "-l"];

#[derive(Debug, Default)]
struct Kept {
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
    kept: Mutex<Kept>,
}

impl Terminals {
    pub(crate) fn new(workspace: PathBuf, reaper: Arc<Reaper>, leftovers: &Arc<Leftovers>) -> Arc<Self> {
        let leftovers = Arc::clone(leftovers);
        let terminals = Arc::new(Self { workspace, reaper, leftovers, kept: Mutex::default() });
        let set: Arc<dyn Running> = terminals.clone();
        terminals.leftovers.spare(Arc::downgrade(&set));
        terminals
    }

    /// The terminal with this id.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Terminal>, Kind> {
        let found = self.lock().by_id.get(id).cloned();
        found.ok_or_else(|| Kind::TerminalUnknown(v1::TerminalUnknown { terminal_id: id.into() }))
    }

    /// All of them, the newest first.
    pub(crate) fn all(&self) -> Vec<Arc<Terminal>> {
        let kept = self.lock();
        kept.order.iter().rev().filter_map(|id| kept.by_id.get(id)).cloned().collect()
    }

    /// How many have something running that is not a shell which waits.
    pub(crate) fn busy(&self) -> usize {
        self.all().iter().filter(|terminal| terminal.is_busy()).count()
    }

    /// Opens a terminal, or finds the one that has this id.
    pub(crate) async fn open(
        self: &Arc<Self>,
        request: v1::OpenTerminalRequest,
    ) -> Result<Arc<Terminal>, Kind> {
        let mut opened = self.try_open(request.clone());
        if !opened.as_ref().is_err_and(is_process_limit) {
            return opened;
        }
        self.leftovers.end().await;
        for _ in 0..COLLECT_TRIES {
            opened = self.try_open(request.clone());
            if !opened.as_ref().is_err_and(is_process_limit) {
                break;
            }
            sleep(COLLECT_PAUSE).await;
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
        self.launch(spec, &request.env, size)
    }

    fn launch(
        self: &Arc<Self>,
        spec: Spec,
        env: &HashMap<String, String>,
        size: Size,
    ) -> Result<Arc<Terminal>, Kind> {
        let (terminal, requests) = Terminal::start(spec, env, size).map_err(refusal_of)?;
        let status = self.reaper.expect(terminal.main());
        let mut kept = self.lock();
        kept.by_id.insert(terminal.id().to_owned(), Arc::clone(&terminal));
        kept.order.push_back(terminal.id().to_owned());
        drop(kept);
        let (terminals, opened) = (Arc::clone(self), Arc::clone(&terminal));
        tokio::spawn(async move {
            life::run(opened, status, requests).await;
            terminals.forget_surplus();
        });
        Ok(terminal)
    }

    /// Looks at a terminal for as long as the viewer lives.
    pub(crate) fn view(&self, request: &v1::ViewTerminalRequest) -> Result<Viewer, Kind> {
        let terminal = self.get(&request.terminal_id)?;
        let permit = Arc::clone(&terminal.viewers).try_acquire_owned();
        let permit = permit.map_err(|_| limit_reached("viewers of a terminal", MAX_VIEWERS))?;
        Ok(Viewer::new(terminal, request, permit))
    }

    /// Types into a terminal.
    pub(crate) async fn input(&self, request: &v1::TerminalInputRequest) -> Result<(), Kind> {
        if request.data.len() > MAX_INPUT_BYTES {
            return Err(invalid("data", format!("is longer than {MAX_INPUT_BYTES} bytes")));
        }
        self.get(&request.terminal_id)?.input(&request.data).await
    }

    pub(crate) fn resize(&self, request: &v1::ResizeTerminalRequest) -> Result<(), Kind> {
        self.get(&request.terminal_id)?.resize(size_of(request.size)?)
    }

    /// Ends a terminal with everything that was started from it, and forgets it.
    pub(crate) async fn close(&self, id: &str) -> Result<(), Kind> {
        let terminal = self.get(id)?;
        // A shell passes it on to its jobs and goes, which it would not do for TERM.
        terminal.request_end(Signal::HUP);
        terminal.ended().await;
        // What had left the terminal, or was left behind by a program that ended by itself.
        ladder::end(terminal.as_ref(), Signal::HUP).await;
        let mut kept = self.lock();
        kept.by_id.remove(id);
        kept.order.retain(|known| known != id);
        Ok(())
    }

    /// Drops the oldest ended ones where there are too many.
    fn forget_surplus(&self) {
        let mut kept = self.lock();
        let Kept { by_id, order } = &mut *kept;
        let has_ended = |id: &String| by_id.get(id).is_some_and(|terminal| !terminal.is_running());
        let ended: Vec<String> = order.iter().filter(|id| has_ended(id)).cloned().collect();
        for id in ended.iter().take(ended.len().saturating_sub(MAX_ENDED_TERMINALS)) {
            by_id.remove(id);
            order.retain(|known| known != id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running for Terminals {
    fn targets(&self) -> Vec<Arc<dyn ladder::Target + Send + Sync>> {
        let running = self.all().into_iter().filter(|terminal| terminal.is_running());
        running.map(|terminal| terminal as Arc<dyn ladder::Target + Send + Sync>).collect()
    }
}

fn limit_reached(limit: &str, value: usize) -> Kind {
    Kind::LimitReached(v1::LimitReached { limit: limit.into(), value: value as u64 })
}

fn size_of(wire: Option<v1::TerminalSize>) -> Result<Size, Kind> {
    let wire = wire.unwrap_or_default();
    Ok(Size { cols: extent("cols", wire.cols, MAX_COLS)?, rows: extent("rows", wire.rows, MAX_ROWS)? })
}

fn extent(field: &str, wished: u32, max: u16) -> Result<NonZeroU16, Kind> {
    let within = u16::try_from(wished).ok().filter(|wished| *wished <= max).and_then(NonZeroU16::new);
    within.ok_or_else(|| invalid(field, format!("must be from 1 to {max}")))
}

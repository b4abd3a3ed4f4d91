//! The task of one interpreter, from its start to its end.
//!
//! It passes runs to the interpreter, one after the other. Between them it reads and drops what background threads and
//! child processes write, so that they never block. When the interpreter ends, so does everything that was started from it.

use tokio::sync::mpsc;
use tokio::task::yield_now;

use super::run::{PendingRun, Run};
use super::session::{Event, Session};

/// Passes on runs until the interpreter ends, or until no other one can be sent.
pub(super) async fn run(mut session: Session, mut pending: mpsc::Receiver<PendingRun>) {
    while let Some(run) = next_run(&mut session, &mut pending).await {
        let finished = Run::new(run, &mut session).perform().await;
        let is_over = finished.state_lost();
        if is_over {
            // Before the end is reported, so that the next run starts another interpreter.
            pending.close();
        }
        finished.report();
        if is_over {
            break;
        }
    }
    pending.close();
    while let Some(run) = pending.recv().await {
        run.report_death();
    }
    session.end().await;
}

/// Waits for the next run. Returns `None` if there will be none in this interpreter.
async fn next_run(session: &mut Session, pending: &mut mpsc::Receiver<PendingRun>) -> Option<PendingRun> {
    loop {
        let event = tokio::select! {
            run = pending.recv() => return run,
            event = session.next() => event,
        };
        match event {
            Event::Closed | Event::Exited => return None,
            // Without a yield, a flood of output would keep the agent from serving others.
            Event::Output(_) | Event::Nothing | Event::Record(_) => yield_now().await,
        }
    }
}

//! The task of one interpreter, from its start to its end.
//!
//! It passes runs to the interpreter, one after the other. Between them it reads and drops what background threads and
//! child processes write, so that they never block. When the interpreter ends, so does everything that was started from it.

use tokio::sync::mpsc;
use tokio::task::yield_now;

use super::run::{Job, Run};
use super::session::{Event, Session};

/// Passes on runs until the interpreter ends, or until nobody can send another one.
pub(super) async fn run(mut session: Session, mut jobs: mpsc::Receiver<Job>) {
    while let Some(job) = next_job(&mut session, &mut jobs).await {
        let finished = Run::new(job, &mut session).perform().await;
        let is_over = finished.state_lost();
        if is_over {
            // Before the end is reported, so that the next run starts another interpreter.
            jobs.close();
        }
        finished.report();
        if is_over {
            break;
        }
    }
    jobs.close();
    while let Some(job) = jobs.recv().await {
        job.report_death();
    }
    session.end().await;
}

/// Waits for the next run. Returns `None` if there will be none in this interpreter.
async fn next_job(session: &mut Session, jobs: &mut mpsc::Receiver<Job>) -> Option<Job> {
    loop {
        let event = tokio::select! {
            job = jobs.recv() => return job,
            event = session.next() => event,
        };
        match event {
            Event::Closed | Event::Exited => return None,
            // Without a yield, a flood of output would keep the agent from serving others.
            Event::Output(_) | Event::Nothing | Event::Record(_) => yield_now().await,
        }
    }
}

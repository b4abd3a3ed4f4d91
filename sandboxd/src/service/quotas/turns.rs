//! A queue for permits that takes turns between projects: however many requests of one project wait, the next permit goes to
//! another one that waits.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::model::ProjectName;

/// Permits for work of which few may run at the same time. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::service) struct Turns(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    free: usize,
    /// Projects that wait. None has an empty queue.
    waiting: BTreeMap<ProjectName, VecDeque<oneshot::Sender<Turn>>>,
    /// The project that had the last turn.
    last: Option<ProjectName>,
}

/// A permit. Dropping it gives the turn to the next project.
#[derive(Debug)]
pub(in crate::service) struct Turn {
    /// `None` if the permit was taken back.
    turns: Option<Turns>,
}

impl Turns {
    /// `permits` must be at least 1.
    pub(in crate::service) fn new(permits: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue { free: permits, waiting: BTreeMap::new(), last: None })))
    }

    /// Waits for a permit. Requests of one project get theirs in order.
    pub(in crate::service) async fn take(&self, project: &ProjectName) -> Turn {
        let turn = {
            let mut queue = self.lock();
            if queue.free > 0 {
                queue.free -= 1;
                queue.last = Some(project.clone());
                return Turn { turns: Some(self.clone()) };
            }
            let (give, turn) = oneshot::channel();
            queue.waiting.entry(project.clone()).or_default().push_back(give);
            turn
        };
        turn.await.expect("a sender is dropped only after it has sent")
    }

    /// Gives a free permit to the next request that still waits.
    fn pass_on(&self) {
        loop {
            let Some(next) = self.lock().next() else { return };
            match next.send(Turn { turns: Some(self.clone()) }) {
                Ok(()) => return,
                // The request has gone. Its permit is for the next one.
                Err(mut turn) => turn.turns = None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The first request of the project after the one that had the last turn. Without requests, the permit is free.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let following = self.waiting.range::<ProjectName, _>((after, Bound::Unbounded)).next();
        let project = following.or_else(|| self.waiting.iter().next()).map(|(project, _)| project.clone());
        let Some(project) = project else {
            self.free += 1;
            return None;
        };
        let queue = self.waiting.get_mut(&project)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&project);
        }
        self.last = Some(project);
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = &self.turns {
            turns.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::*;

    fn project(name: &str) -> ProjectName {
        name.parse().unwrap()
    }

    /// A request that waits already.
    fn waiting(turns: &Turns, name: &'static str) -> BoxFuture<'static, (&'static str, Turn)> {
        let (turns, project) = (turns.clone(), project(name));
        let mut request = async move { (name, turns.take(&project).await) }.boxed();
        assert!(request.as_mut().now_or_never().is_none());
        request
    }

    #[test]
    fn projects_take_turns_however_many_of_their_requests_wait() {
        let turns = Turns::new(1);
        let mut turn = turns.take(&project("a")).now_or_never().unwrap();
        let mut requests: Vec<_> =
            ["a", "a", "a", "b", "c", "b"].into_iter().map(|name| waiting(&turns, name)).collect();
        let mut order = Vec::new();
        while !requests.is_empty() {
            drop(turn);
            let ready = |request: &mut BoxFuture<'static, _>| request.as_mut().now_or_never();
            let found = requests.iter_mut().enumerate().find_map(|(at, request)| Some((at, ready(request)?)));
            let (at, (name, next)) = found.expect("one request has the turn");
            drop(requests.remove(at));
            order.push(name);
            turn = next;
        }
        assert_eq!(order, ["b", "c", "a", "b", "a", "a"]);
    }

    #[test]
    fn a_request_that_has_gone_loses_no_permit() {
        let turns = Turns::new(1);
        let turn = turns.take(&project("a")).now_or_never().unwrap();
        let (left, stays) = (waiting(&turns, "b"), waiting(&turns, "c"));
        drop(left);
        drop(turn);
        let (name, turn) = stays.now_or_never().unwrap();
        assert_eq!(name, "c");
        let late = waiting(&turns, "a");
        drop(turn);
        // It has the turn, and leaves before it looks.
        drop(late);
        assert!(turns.take(&project("b")).now_or_never().is_some());
    }
}

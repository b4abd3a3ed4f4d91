//! The pool: sandboxes that were started before a session wants them, so that a create takes milliseconds.
//!
//! Their containers are those of sandboxes that name no options. There is no I/O here: [`waiting`](super::waiting) starts and
//! removes them, and [`claim`](super::claim) gives them to sessions.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox_api::SandboxId;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::sandbox::Sandbox;
use crate::agent::AgentHandle;
use crate::model::{Owner, POOL_KEY, ProjectName, Resources, SandboxSpec, limits};
use crate::service::quotas::RunPermit;

/// A sandbox whose container runs and whose agent has answered.
#[derive(Debug)]
pub(super) struct Started {
    /// The sandbox as it is while it waits.
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) agent: AgentHandle,
    pub(super) permit: RunPermit,
    /// When it was started.
    pub(super) since: Instant,
}

/// The sandboxes that wait for a session.
#[derive(Debug, Default)]
pub(super) struct Pool {
    state: Mutex<State>,
    /// Notified when one was taken, or may not be usable any more.
    pub(super) changed: Notify,
    /// Notified when the start of another one has ended.
    settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Started>,
    /// Whose sandboxes they will be. The kernel divides the processors among projects, so a container is in the cgroup of its
    /// project from the start.
    project: ProjectName,
    /// The project of the last create that could have taken one.
    last: ProjectName,
    /// When the last container was wanted.
    last_use: Option<Instant>,
    /// Those that may have changed since they were checked, each with the number of the change.
    doubts: HashMap<SandboxId, u64>,
    changes: u64,
    /// Another one is being started.
    is_starting: bool,
}

/// One is being started until this is dropped.
pub(super) struct Starting<'a>(&'a Pool);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.lock().is_starting = false;
        self.0.settled.notify_waiters();
    }
}

impl Pool {
    /// Takes one for a sandbox with this specification, if one fits. `image` is what sandboxes get that name none.
    pub(super) fn take(&self, spec: &SandboxSpec, image: &str) -> Option<Started> {
        let mut state = self.lock();
        state.last_use = Some(Instant::now());
        if !fits(spec, image) {
            return None;
        }
        state.follow(&spec.owner.project);
        let usable = |started: &Started| {
            started.sandbox.owner().project == spec.owner.project
                && started.agent.is_connected()
                && !state.doubts.contains_key(started.sandbox.id())
        };
        let at = state.ready.iter().position(usable)?;
        let mut started = state.ready.remove(at)?;
        self.changed.notify_one();
        if started.permit.move_to(&spec.owner).is_err() {
            // Its project may not run more, or the rest is kept for others.
            state.ready.push_back(started);
            return None;
        }
        Some(started)
    }

    /// Notes that one is being started. It has a permit before it is in the pool.
    pub(super) fn begin_start(&self) -> Starting<'_> {
        self.lock().is_starting = true;
        Starting(self)
    }

    /// Takes one to make room. Waits for one that is being started.
    pub(super) async fn take_for_room(&self) -> Option<Started> {
        let mut settled = pin!(self.settled.notified());
        settled.as_mut().enable();
        if let Some(started) = self.take_out(|_| true) {
            return Some(started);
        }
        if self.lock().is_starting {
            let _ = timeout(limits::POOL_START, settled).await;
        }
        self.take_out(|_| true)
    }

    /// Takes one that is to be removed.
    pub(super) fn take_out(&self, is_it: impl FnMut(&Started) -> bool) -> Option<Started> {
        let mut state = self.lock();
        let at = state.ready.iter().position(is_it)?;
        let taken = state.ready.remove(at)?;
        state.doubts.remove(taken.sandbox.id());
        Some(taken)
    }

    /// Adds one that was started.
    pub(super) fn add(&self, started: Started) {
        self.lock().ready.push_back(started);
    }

    /// The agent of one that waits. `None` if it is being started or removed, or if a session has it.
    pub(super) fn agent_of(&self, id: &SandboxId) -> Option<AgentHandle> {
        let state = self.lock();
        state.ready.iter().find(|started| started.sandbox.id() == id).map(|started| started.agent.clone())
    }

    /// Whose sandboxes they are to be.
    pub(super) fn project(&self) -> ProjectName {
        self.lock().project.clone()
    }

    /// How long to wait until no container was wanted for [`limits::POOL_QUIET`].
    pub(super) fn until_quiet(&self) -> Duration {
        let last = self.lock().last_use;
        last.map_or(Duration::ZERO, |last| limits::POOL_QUIET.saturating_sub(last.elapsed()))
    }

    /// Whether one waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().ready.is_empty()
    }

    /// Number of those that wait.
    pub(super) fn len(&self) -> usize {
        self.lock().ready.len()
    }

    /// A container is started that was wanted.
    pub(super) fn note_use(&self) {
        self.lock().last_use = Some(Instant::now());
    }

    /// Something may have happened to these. They are given to no session before they are checked.
    pub(super) fn doubt(&self, is_it: impl Fn(&Started) -> bool) {
        let mut state = self.lock();
        let State { ready, doubts, changes, .. } = &mut *state;
        *changes += 1;
        let doubtful: Vec<SandboxId> = ready
            .iter()
            .filter(|started| is_it(started))
            .map(|started| started.sandbox.id().clone())
            .collect();
        let is_any = !doubtful.is_empty();
        doubts.extend(doubtful.into_iter().map(|id| (id, *changes)));
        drop(state);
        if is_any {
            self.changed.notify_one();
        }
    }

    /// The change that made one doubtful, if any.
    pub(super) fn doubt_of(&self, id: &SandboxId) -> Option<u64> {
        self.lock().doubts.get(id).copied()
    }

    /// One is as it was, except for changes after `doubt`.
    pub(super) fn trust(&self, id: &SandboxId, doubt: Option<u64>) {
        let mut state = self.lock();
        if state.doubts.get(id).copied() == doubt {
            state.doubts.remove(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes a create. Two in a row of another project make the pool its own.
    fn follow(&mut self, project: &ProjectName) {
        if project.is_reserved() {
            return;
        }
        if self.last == *project {
            self.project = project.clone();
        } else {
            self.last = project.clone();
        }
    }
}

/// Whether a sandbox with this specification could have the container of one that waits.
fn fits(spec: &SandboxSpec, image: &str) -> bool {
    spec.image.as_ref().is_none_or(|wanted| wanted == image)
        && spec.resources == Resources::default()
        && !spec.network.is_open()
}

/// The specification of one that waits.
pub(super) fn waiting_spec(project: ProjectName) -> SandboxSpec {
    let key = POOL_KEY.parse().expect("it is a session key");
    SandboxSpec { owner: Owner { project, subject: None }, ..SandboxSpec::new(key) }
}

#[cfg(test)]
mod tests {
    use crate::model::{NetworkMode, NetworkPolicy};

    use super::*;

    fn spec() -> SandboxSpec {
        SandboxSpec::new("chat:1".parse().unwrap())
    }

    #[test]
    fn only_the_container_of_a_sandbox_without_options_fits() {
        let wanted = [
            spec(),
            SandboxSpec { image: Some("own:1".into()), ..spec() },
            SandboxSpec { ports: vec![3000], env: [("A".into(), "b".into())].into(), ..spec() },
        ];
        assert!(wanted.iter().all(|spec| fits(spec, "own:1")));
        let open = NetworkPolicy::from_texts(NetworkMode::Open, &[]).unwrap();
        let small = sandbox_api::sandbox::Resources { vcpus: Some(1), ..Default::default() };
        let other = [
            SandboxSpec { image: Some("other:1".into()), ..spec() },
            SandboxSpec { network: open, ..spec() },
            SandboxSpec { resources: Resources::new(small).unwrap(), ..spec() },
        ];
        assert!(!other.iter().any(|spec| fits(spec, "own:1")));
    }

    #[test]
    fn the_pool_follows_the_project_that_creates_twice_in_a_row() {
        let mut state = State::default();
        let [lab, press]: [ProjectName; 2] = ["lab", "press"].map(|name| name.parse().unwrap());
        for (create, project) in [(&lab, "default"), (&press, "default"), (&press, "press"), (&lab, "press")]
        {
            state.follow(create);
            assert_eq!(state.project.as_str(), project);
        }
        state.follow(&ProjectName::repositories());
        state.follow(&ProjectName::repositories());
        assert_eq!(state.project, press);
    }
}

//! How fast the bytes of a project flow while another one works.
//!
//! Bytes cost processor time on all sides of the daemon: in the sandbox that makes them, in its agent, and in the daemon. So
//! the large bodies of a project are paced while another project sends requests. A project alone has no limit. A response
//! that waits reads nothing from its sandbox, whose command then waits too.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::Body as AxumBody;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::client_address::OfSurface;
use crate::model::{Principal, ProjectName, limits};

/// The pace of all projects.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<Lanes>);

/// The two projects that sent requests last, and the lanes of those that are paced.
#[derive(Debug, Default)]
struct Lanes {
    newest: Option<(ProjectName, Instant)>,
    /// The newest of another project.
    other: Option<(ProjectName, Instant)>,
    /// When each paced project may send its next byte. There are few: a lane is removed when that time has passed.
    free_at: HashMap<ProjectName, Instant>,
}

impl Pace {
    fn note(&self, project: &ProjectName) {
        self.lock().note(project, Instant::now());
    }

    /// How long the next bytes of the project wait after these.
    fn take(&self, project: &ProjectName, bytes: usize) -> Duration {
        self.lock().take(project, bytes, Instant::now())
    }

    /// How long the project still waits for what has flowed.
    fn ahead(&self, project: &ProjectName) -> Duration {
        self.take(project, 0)
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    /// Notes a request of a project.
    fn note(&mut self, project: &ProjectName, now: Instant) {
        match &mut self.newest {
            Some((newest, at)) if newest == project => *at = now,
            newest => self.other = newest.replace((project.clone(), now)),
        }
    }

    /// Whether another project has sent a request lately.
    fn is_shared(&self, project: &ProjectName, now: Instant) -> bool {
        let mut others = self.newest.iter().chain(&self.other);
        others.any(|(other, at)| {
            other != project && now.saturating_duration_since(*at) < limits::PROJECT_IS_ACTIVE
        })
    }

    fn take(&mut self, project: &ProjectName, bytes: usize, now: Instant) -> Duration {
        if !self.is_shared(project, now) {
            return Duration::ZERO;
        }
        self.free_at.retain(|other, free_at| other == project || *free_at > now);
        let free_at = self.free_at.entry(project.clone()).or_insert(now);
        let cost = Duration::from_secs_f64(bytes as f64 / limits::SHARED_BYTES_PER_SECOND as f64);
        // A command's first record must not wait for a minute of downloads.
        *free_at = ((*free_at).max(now) + cost).min(now + limits::MAX_PACE_WAIT);
        free_at.saturating_duration_since(now)
    }
}

/// Notes the request's project, and paces large bodies. What a surface sends itself is part of its caller's response.
pub(super) async fn check(State(pace): State<Arc<Pace>>, request: Request, next: Next) -> Response {
    let principal = request.extensions().get::<Arc<Principal>>();
    let is_direct = request.extensions().get::<OfSurface>().is_none();
    let Some(project) = principal.filter(|_| is_direct).map(|principal| principal.owner.project.clone())
    else {
        return next.run(request).await;
    };
    pace.note(&project);
    let paced = |body| Paced::of(body, &pace, &project);
    next.run(request.map(paced)).await.map(paced)
}

/// A body whose frames flow at the pace of a project.
struct Paced {
    body: AxumBody,
    pace: Arc<Pace>,
    project: ProjectName,
    /// Ends when the next frame may flow.
    wait: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    /// A small body is returned as it is.
    fn of(body: AxumBody, pace: &Arc<Pace>, project: &ProjectName) -> AxumBody {
        let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= limits::MAX_UNPACED_BYTES);
        if is_small {
            return body;
        }
        let wait = sleep_for(pace.ahead(project));
        AxumBody::new(Self { body, pace: Arc::clone(pace), project: project.clone(), wait })
    }
}

fn sleep_for(wait: Duration) -> Option<Pin<Box<Sleep>>> {
    (!wait.is_zero()).then(|| Box::pin(sleep(wait)))
}

impl Body for Paced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            self.wait = sleep_for(self.pace.take(&self.project, data.len()));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(name: &str) -> ProjectName {
        name.parse().unwrap()
    }

    #[test]
    fn a_project_is_paced_only_while_another_one_works() {
        let (mut lanes, start) = (Lanes::default(), Instant::now());
        let second = limits::SHARED_BYTES_PER_SECOND as usize;
        let (lab, zoo) = (project("lab"), project("zoo"));
        lanes.note(&lab, start);
        assert_eq!(lanes.take(&lab, second, start), Duration::ZERO);
        lanes.note(&zoo, start);
        lanes.note(&lab, start);
        assert_eq!(lanes.take(&lab, second, start), Duration::from_secs(1));
        assert_eq!(lanes.take(&lab, second, start), Duration::from_secs(2), "its bodies share a pace");
        assert_eq!(lanes.take(&lab, 60 * second, start), limits::MAX_PACE_WAIT);
        assert_eq!(lanes.take(&zoo, second, start), Duration::from_secs(1), "others have their own");
        let later = start + limits::PROJECT_IS_ACTIVE;
        assert_eq!(lanes.take(&lab, second, later), Duration::ZERO);
        lanes.note(&zoo, later);
        assert_eq!(lanes.take(&lab, second, later), Duration::from_secs(1));
        assert_eq!(lanes.free_at.len(), 1, "the other one's time has passed");
    }
}

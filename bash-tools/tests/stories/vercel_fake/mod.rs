//! A fake of Vercel's REST API on loopback, as far as the crate uses it. Its commands really run here. It is strict: a
//! request that Vercel's own client would not send is rejected and fails the story. Faults can be injected. It is not a
//! sandbox: its commands run as root, in a mount namespace where a directory of the story is /vercel/sandbox.

mod checks;
mod command;
mod fault;
mod files;
mod machine;
mod sandbox;

use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bash_tools::provider::{Credentials, Vercel, VercelOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub(crate) use fault::Fault;
use sandbox::World;

/// The accepted token.
pub(crate) const TOKEN: &str = "vercel-t0ken-of-the-story";
pub(crate) const TEAM: &str = "team_story";
pub(crate) const PROJECT: &str = "prj_story";

/// The fake for one story.
pub(crate) struct Fake {
    /// Its URL, including the API's path.
    pub(crate) base: String,
    shared: Arc<Shared>,
}

struct Shared {
    world: Mutex<World>,
    /// Faults to inject, and the requests that they apply to.
    faults: Mutex<Vec<(String, Fault)>>,
    /// Requests so far, as `POST …/cmd`.
    received: Mutex<Vec<String>>,
    /// Errors found in requests.
    violations: Mutex<Vec<String>>,
}

type State = axum::extract::State<Arc<Shared>>;

impl Fake {
    pub(crate) async fn start() -> Self {
        let shared = Arc::new(Shared {
            world: Mutex::default(),
            faults: Mutex::default(),
            received: Mutex::default(),
            violations: Mutex::default(),
        });
        machine::prepare();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}/api", listener.local_addr().unwrap());
        let router = Router::new().nest("/api/v2/sandboxes", routes());
        let router = router
            .route("/api/v3/sandboxes", post(sandbox::create))
            .with_state(Arc::clone(&shared))
            .layer(from_fn_with_state(Arc::clone(&shared), fault::make))
            .layer(from_fn_with_state(Arc::clone(&shared), checks::keep));
        tokio::spawn(axum::serve(listener, router).into_future());
        Self { base, shared }
    }

    /// The provider, as an app uses it.
    pub(crate) fn provider(&self) -> Vercel {
        self.provider_of(request())
    }

    pub(crate) fn provider_of(&self, request: VercelOptions) -> Vercel {
        let credentials = Credentials::new(TOKEN.into(), TEAM.into(), PROJECT.into()).unwrap();
        Vercel::new(&self.base, credentials, request).unwrap()
    }

    /// Injects a fault into the next request that ends like this, such as `POST …/cmd`. Several faults form a queue.
    pub(crate) fn inject_fault(&self, method: &str, end: &str, fault: Fault) {
        self.shared.faults.lock().unwrap().push((format!("{method} {end}"), fault));
    }

    /// The number of requests that ended like this.
    pub(crate) fn count(&self, method: &str, end: &str) -> usize {
        let received = self.shared.received.lock().unwrap();
        received.iter().filter(|it| it.starts_with(&format!("{method} ")) && it.ends_with(end)).count()
    }

    /// Stops every machine, as Vercel does at its timeout.
    pub(crate) fn stop_all(&self) {
        self.shared.world().stop_all();
    }

    /// All errors found in requests so far.
    pub(crate) fn violations(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.violations.lock().unwrap())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop_all();
        let violations = self.violations();
        assert!(
            std::thread::panicking() || violations.is_empty(),
            "Vercel would not take this: {violations:#?}"
        );
    }
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Records an error in a request, and responds to it.
    fn violated(&self, what: String) -> Refusal {
        self.violations.lock().unwrap().push(what.clone());
        Refusal(StatusCode::BAD_REQUEST, "bad_request", what)
    }
}

/// The request with which stories create sandboxes.
pub(crate) fn request() -> VercelOptions {
    VercelOptions {
        runtime: "node22".into(),
        vcpus: 2,
        timeout: std::time::Duration::from_secs(900),
        ports: vec![3000],
        persistent: true,
        source: None,
    }
}

fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", post(sandbox::create))
        .route("/{name}", get(sandbox::find).delete(sandbox::delete))
        .route("/sessions/{session}", get(sandbox::session))
        .route("/sessions/{session}/stop", post(sandbox::stop))
        .route("/sessions/{session}/cmd", post(command::start))
        .route("/sessions/{session}/cmd/{command}", get(command::command))
        .route("/sessions/{session}/cmd/{command}/logs", get(command::logs))
        .route("/sessions/{session}/cmd/{command}/kill", post(command::kill))
        .route("/sessions/{session}/fs/mkdir", post(files::mkdir))
        .route("/sessions/{session}/fs/write", post(files::write))
        .route("/sessions/{session}/fs/read", post(files::read))
}

/// An error response, in Vercel's format.
struct Refusal(StatusCode, &'static str, String);

impl Refusal {
    fn not_found(what: &str) -> Self {
        Self(StatusCode::NOT_FOUND, "not_found", format!("{what} not found"))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(status, code, message) = self;
        let body: Value = json!({"error": {"code": code, "message": message}});
        (status, axum::Json(body)).into_response()
    }
}

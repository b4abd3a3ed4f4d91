//! A chat app with gates in front of it, and a sandboxd that is healthy or not, both on real sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{Response, StatusCode};
use axum::routing::get;
use bash_tools::config::{self, Environment};
use bash_tools::gates::{BashToolsLayer, Decision, Gates, access_route};
use reqwest::{Client, RequestBuilder};
use tokio::net::TcpListener;

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";
pub(crate) const ON: &[(&str, &str)] =
    &[("REMCOCHAT_ENABLE_BASH_TOOL", "1"), ("REMCOCHAT_ADMIN_TOKEN", TOKEN)];

/// Lines of `[app.bash_tools]` for enabled tools, and some more.
pub(crate) fn enabled(more: &str) -> String {
    format!(
        "[app.bash_tools]\nenabled = true\n{more}\n[app.bash_tools.seed]\ngit_url = 'https://git.lan/x'\n"
    )
}

/// The same with a sandboxd.
pub(crate) fn with_sandboxd(address: SocketAddr, more: &str) -> String {
    let docker = format!("[app.bash_tools.docker]\norchestrator_url = 'http://{address}'\n");
    enabled(&format!("provider = 'docker'\n{more}")) + &docker
}

pub(crate) fn gates(file: &str, variables: &[(&str, &str)]) -> Gates {
    let tools = config::parse(file).unwrap().tools;
    let find =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    Gates::new(tools.as_ref(), &Environment::read(tools.as_ref(), find)).unwrap()
}

/// The response of the app: `Enabled`, or `Disabled(reason)`.
async fn chat(decision: Decision) -> String {
    format!("{decision:?}")
}

pub(crate) fn router(gates: Gates) -> Router {
    let routes =
        Router::new().route("/chat", get(chat)).route("/api/admin/access", access_route(gates.clone()));
    routes.layer(BashToolsLayer::new(gates))
}

/// A chat app that listens on every address of this machine.
pub(crate) struct App {
    port: u16,
    client: Client,
}

/// A response of the app.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) decision: String,
    pub(crate) enabled: Option<String>,
    pub(crate) tools: Option<String>,
}

impl App {
    pub(crate) async fn start(gates: Gates) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let service = router(gates).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { port, client: Client::builder().no_proxy().build().unwrap() }
    }

    /// A request whose peer address is this one.
    pub(crate) fn get(&self, by: IpAddr, path: &str) -> RequestBuilder {
        self.client.get(format!("http://{}{path}", SocketAddr::new(by, self.port)))
    }

    pub(crate) async fn chat(&self, by: IpAddr, headers: &[(&str, &str)]) -> Answer {
        answer(
            headers
                .iter()
                .fold(self.get(by, "/chat"), |request, (name, value)| request.header(*name, *value)),
        )
        .await
    }
}

pub(crate) async fn answer(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (enabled, tools) = (header("x-remcochat-bash-tools-enabled"), header("x-remcochat-bash-tools"));
    Answer { decision: response.text().await.unwrap(), enabled, tools }
}

/// The response of an app with tools.
pub(crate) fn with_tools() -> Answer {
    Answer {
        decision: "Enabled".into(),
        enabled: Some("1".into()),
        tools: Some("readFile,writeFile,bash,sandboxUrl".into()),
    }
}

/// The response of an app without tools.
pub(crate) fn without_tools(reason: &str) -> Answer {
    Answer { decision: format!("Disabled({reason})"), enabled: Some("0".into()), tools: None }
}

pub(crate) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An address of this machine other than loopback: the source address for other hosts. No packet is sent.
pub(crate) fn elsewhere() -> IpAddr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).unwrap();
    let address = socket.local_addr().unwrap().ip();
    assert!(!address.is_loopback(), "this machine has no other address than {address}");
    address
}

/// The response of a sandboxd to a health check.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Health {
    Healthy,
    /// 503, with a reason.
    Failing,
    /// 200, with the body of another service.
    Rubbish,
    /// 200, and JSON that reports a failure.
    NotOk,
    /// No response.
    Hanging,
    /// 200, and an endless body.
    Endless,
    /// A redirect to a healthy one.
    Redirecting,
}

/// A sandboxd that has only the health route.
#[derive(Debug, Clone)]
pub(crate) struct Sandboxd {
    pub(crate) address: SocketAddr,
    health_checks: Arc<AtomicUsize>,
}

impl Sandboxd {
    pub(crate) async fn start(health: Health) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let health_checks = Arc::new(AtomicUsize::new(0));
        let state = (health, health_checks.clone());
        let well = || async { r#"{"ok":true,"engine":"docker","version":"28"}"# };
        let router = Router::new()
            .route("/v1/health", get(answer_health_check).with_state(state))
            .route("/well", get(well));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, health_checks }
    }

    /// Number of health checks it received.
    pub(crate) fn health_checks(&self) -> usize {
        self.health_checks.load(Ordering::SeqCst)
    }
}

async fn answer_health_check(
    State((health, health_checks)): State<(Health, Arc<AtomicUsize>)>,
) -> Response<Body> {
    health_checks.fetch_add(1, Ordering::SeqCst);
    let answer = |status: StatusCode, body: &'static str| {
        Response::builder().status(status).header(LOCATION, "/well").body(body.into()).unwrap()
    };
    match health {
        Health::Healthy => answer(StatusCode::OK, r#"{"ok":true,"engine":"docker","version":"28"}"#),
        Health::Failing => {
            answer(StatusCode::SERVICE_UNAVAILABLE, r#"{"error":"the engine is unavailable"}"#)
        }
        Health::Rubbish => answer(StatusCode::OK, "<html>It works!</html>"),
        Health::NotOk => answer(StatusCode::OK, r#"{"ok":false}"#),
        Health::Hanging => std::future::pending().await,
        Health::Endless => {
            let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 1024]));
            Response::new(Body::from_stream(chunks))
        }
        Health::Redirecting => answer(StatusCode::TEMPORARY_REDIRECT, ""),
    }
}

//! A git server on this machine that sandboxes and daemons reach: git's own `http-backend`, over https and http. It records its
//! requests, so that a story need not trust git. The first part of a path selects its behaviour:
//!
//! - `/` is normal.
//! - `/private/` requires a token.
//! - `/old/` speaks only git's first protocol.
//! - `/away/` redirects to `/private/` on another name.
//! - `/plain/` redirects from https to http.
//! - `/slow/` never responds.
//! - `/endless/` sends bytes without an end.
//! - `/limited/` permits no more requests for 90 seconds, and `/spent/` none as GitHub says it.
//! - `/inside/` redirects to an address of this machine that is not the server's.
//!
//! It is also a registry of npm packages, see [`GitServer::publish`], and an index of Python packages, see
//! [`GitServer::publish_wheel`].

#![expect(clippy::unwrap_used, reason = "a test that cannot continue ends")]

mod wheels;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use test_daemon::Home;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::wheels::Index;

/// The server's names.
pub const NAME: &str = "git.example";
/// Another name of it.
pub const ELSEWHERE: &str = "elsewhere.example";
/// The password of `/private/`, with any user name.
pub const TOKEN: &str = "hunter2-hunter2-hunter2";

const MAX_BODY_BYTES: usize = 1 << 20;

/// A request: the host's name, the path, and its `Authorization`.
pub type ReceivedRequest = (String, String, Option<String>);

/// See the module.
pub struct GitServer {
    dir: TempDir,
    address: Ipv4Addr,
    tls: TlsAcceptor,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    published: Arc<Mutex<HashMap<String, String>>>,
    index: Arc<Mutex<Index>>,
    fetches: Arc<AtomicUsize>,
    before_fetch: Arc<Mutex<Option<String>>>,
    serving: JoinSet<()>,
}

impl GitServer {
    /// Creates a server that does not serve yet. Returns `None` and skips the test if this user may not listen on ports
    /// that every sandbox reaches.
    pub async fn prepare() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed) * 7919);
        let [_, _, high, low] = number.to_be_bytes();
        let address = Ipv4Addr::new(127, 77, high, low.clamp(1, 254));
        if let Err(error) = TcpListener::bind((address, 443)).await {
            test_daemon::skip(format!("port 443 cannot be listened on: {error}"));
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let tls = tls(&dir.path().join("ca.pem"));
        let (received, published, index, fetches, before_fetch) = Default::default();
        let serving = JoinSet::new();
        Some(Self { dir, address, tls, received, published, index, fetches, before_fetch, serving })
    }

    /// A server that serves.
    pub async fn start() -> Option<Self> {
        let mut server = Self::prepare().await?;
        server.serve().await;
        Some(server)
    }

    /// Begins to serve.
    pub async fn serve(&mut self) {
        let state = Serving {
            root: self.root().into(),
            received: Arc::clone(&self.received),
            published: Arc::clone(&self.published),
            index: Arc::clone(&self.index),
            fetches: Arc::clone(&self.fetches),
            before_fetch: Arc::clone(&self.before_fetch),
        };
        let router = Router::new().fallback(answer).with_state(state);
        let https = TcpListener::bind((self.address, 443)).await.unwrap();
        let http = TcpListener::bind((self.address, 80)).await.unwrap();
        let (tls, secure) = (self.tls.clone(), router.clone());
        self.serving.spawn(async move {
            while let Ok((stream, _)) = https.accept().await {
                let (tls, router) = (tls.clone(), secure.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve_connection(stream, router).await;
                    }
                });
            }
        });
        self.serving.spawn(async move {
            while let Ok((stream, _)) = http.accept().await {
                tokio::spawn(serve_connection(stream, router.clone()));
            }
        });
    }

    /// Settings of a daemon whose sandboxes reach the server and trust it.
    pub fn settings(&self) -> [(&'static str, String); 3] {
        let bundle = self.dir.path().join("ca.pem");
        [
            ("SANDBOXD_EGRESS_ALLOW_CIDR", format!("{}/32", self.address)),
            ("SANDBOXD_EGRESS_HOSTS", format!("{NAME}={0},{ELSEWHERE}={0}", self.address)),
            ("SANDBOXD_CA_BUNDLE", bundle.to_str().unwrap().to_owned()),
        ]
    }

    /// A home for such a daemon.
    pub fn home(&self) -> Home {
        self.settings().iter().fold(Home::new(), |home, (name, value)| home.set(name, value))
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }

    /// Number of requests for commits so far.
    pub fn fetches(&self) -> usize {
        self.fetches.load(Ordering::Relaxed)
    }

    /// Runs a script in the directory of the repositories before the next commit is sent.
    pub fn before_fetch(&self, script: &str) {
        *self.before_fetch.lock().unwrap() = Some(script.to_owned());
    }

    /// The directory of the repositories.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Publishes a version of a package: what the registry at `https://git.example/registry` says about it.
    pub fn publish(&self, name: &str, version: &str, manifest: &str) {
        let path = format!("/{}/{version}", name.replace('/', "%2f"));
        self.published.lock().unwrap().insert(path, manifest.to_owned());
    }

    /// Publishes a wheel: a version of a Python package with modules, and what it requires. The index is at
    /// `https://git.example/simple` in JSON, at `/pages` in HTML, and at `/closed` it requires a token. Its files are on
    /// another name.
    pub fn publish_wheel(&self, package: &str, version: &str, modules: &[(&str, &str)], requires: &[&str]) {
        self.index.lock().unwrap().add_wheel(package, version, modules, requires);
    }

    /// Publishes the source code of a version of a Python package, from its files.
    pub fn publish_source(&self, package: &str, version: &str, files: &[(&str, &str)]) {
        let (dir, name) = (tempfile::tempdir().unwrap(), format!("{package}-{version}"));
        let root = dir.path().join(&name);
        std::fs::create_dir(&root).unwrap();
        for (path, text) in files {
            std::fs::write(root.join(path), text).unwrap();
        }
        let mut tar = std::process::Command::new("tar");
        let made = tar.arg("-C").arg(dir.path()).args(["-czf", "-", &name]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        self.index.lock().unwrap().add(package, &format!("{name}.tar.gz"), made.stdout);
    }

    /// Publishes another file of a Python package, which is not a wheel for this machine.
    pub fn publish_file(&self, package: &str, name: &str) {
        self.index.lock().unwrap().add(package, name, Vec::new());
    }

    /// Creates a repository with a script that runs in an empty work tree on `main`. Returns the script's output.
    pub async fn repository(&self, name: &str, script: &str) -> String {
        let work = self.root().join("work").join(name);
        tokio::fs::create_dir_all(&work).await.unwrap();
        let bare = self.root().join(format!("{name}.git"));
        let script = format!(
            "set -e; git init -q -b main; git config user.name me; git config user.email me@git.example
             {script}
             git clone -q --mirror . '{}'",
            bare.display()
        );
        run(&script, &work).await
    }
}

/// Runs a script and returns its output.
async fn run(script: &str, directory: &Path) -> String {
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let ran = bash.output().await.unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// A certificate for the names. Its authority is written to a file for clients.
fn tls(authority: &Path) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(authority, params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);

    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([NAME.to_owned(), ELSEWHERE.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate.der().clone()], key).unwrap()))
}

async fn serve_connection(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, router: Router) {
    let service = TowerToHyperService::new(router);
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

#[derive(Clone)]
struct Serving {
    root: Arc<Path>,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    published: Arc<Mutex<HashMap<String, String>>>,
    index: Arc<Mutex<Index>>,
    fetches: Arc<AtomicUsize>,
    before_fetch: Arc<Mutex<Option<String>>>,
}

async fn answer(State(serving): State<Serving>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let authorization = header(header::AUTHORIZATION);
    let host = header(header::HOST).unwrap_or_default();
    let path = parts.uri.path().to_owned();
    serving.received.lock().unwrap().push((host, path.clone(), authorization.clone()));
    let (kind, path) = match path[1..].split_once('/') {
        Some((
            kind @ ("private" | "old" | "away" | "plain" | "slow" | "endless" | "inside" | "registry"
            | "limited" | "spent" | "simple" | "pages" | "closed" | "wheels"),
            rest,
        )) => (kind, format!("/{rest}")),
        _ => ("", path),
    };
    let query = parts.uri.query().unwrap_or_default();
    match kind {
        "slow" => std::future::pending().await,
        "endless" => Response::new(Body::from_stream(futures::stream::repeat_with(|| {
            Ok::<_, std::convert::Infallible>(Bytes::from_static(&[b'0'; 64 * 1024]))
        }))),
        "inside" => redirect(&format!("https://127.0.0.1{path}?{query}")),
        "registry" => match serving.published.lock().unwrap().get(&path) {
            Some(manifest) => Response::new(Body::from(manifest.clone())),
            None => axum::response::IntoResponse::into_response(StatusCode::NOT_FOUND),
        },
        "private" | "closed" if !authorization.as_deref().is_some_and(is_right) => {
            with_header(StatusCode::UNAUTHORIZED, "www-authenticate", "Basic realm=\"git\"")
        }
        "simple" | "closed" | "pages" | "wheels" => {
            let index = serving.index.lock().unwrap();
            match kind {
                "wheels" => index.file(&path),
                _ => index.page(&path, ELSEWHERE, kind != "pages"),
            }
        }
        "away" => redirect(&format!("https://{ELSEWHERE}/private{path}?{query}")),
        "limited" => with_header(StatusCode::TOO_MANY_REQUESTS, "retry-after", "90"),
        "spent" => with_header(StatusCode::FORBIDDEN, "x-ratelimit-remaining", "0"),
        "plain" => redirect(&format!("http://{NAME}{path}?{query}")),
        kind => {
            let body = to_bytes(body, MAX_BODY_BYTES).await.unwrap();
            // Both protocols name the wanted commits like this. A look-up names none.
            if body.windows(5).any(|part| part == b"want ") {
                serving.fetches.fetch_add(1, Ordering::Relaxed);
                let script = serving.before_fetch.lock().unwrap().take();
                if let Some(script) = script {
                    run(&script, &serving.root).await;
                }
            }
            let protocol = header_of(&parts.headers, "git-protocol").filter(|_| kind != "old");
            let method = parts.method.as_str();
            backend(&serving.root, method, &path, query, &parts.headers, protocol, body).await
        }
    }
}

fn is_right(authorization: &str) -> bool {
    use base64::Engine as _;
    let basic = authorization.strip_prefix("Basic ").unwrap_or_default();
    let basic = base64::prelude::BASE64_STANDARD.decode(basic).unwrap_or_default();
    basic == format!("x-access-token:{TOKEN}").as_bytes()
}

fn header_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

fn with_header(status: StatusCode, name: &'static str, value: &str) -> Response<Body> {
    axum::response::IntoResponse::into_response((status, [(name, value.to_owned())]))
}

fn redirect(to: &str) -> Response<Body> {
    with_header(StatusCode::FOUND, header::LOCATION.as_str(), to)
}

/// git-http-backend(1), over CGI (RFC 3875).
async fn backend(
    root: &Path,
    method: &str,
    path: &str,
    query: &str,
    headers: &HeaderMap,
    protocol: Option<&str>,
    body: Bytes,
) -> Response<Body> {
    let mut command = Command::new("git");
    command.arg("http-backend").env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    command.env("REQUEST_METHOD", method).env("PATH_INFO", path).env("QUERY_STRING", query);
    command.env("REMOTE_ADDR", "127.0.0.1").env("CONTENT_LENGTH", body.len().to_string());
    command
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*");
    for (variable, name) in [("CONTENT_TYPE", "content-type"), ("HTTP_CONTENT_ENCODING", "content-encoding")]
    {
        command.env(variable, header_of(headers, name).unwrap_or_default());
    }
    if let Some(protocol) = protocol {
        command.env("GIT_PROTOCOL", protocol);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let write = async move {
        let _ = stdin.write_all(&body).await;
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), write);
    let output = output.unwrap().stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..end]).unwrap().lines() {
        response = match line.split_once(": ").unwrap() {
            ("Status", status) => response.status(&status[..3]),
            (name, value) => response.header(name, value),
        };
    }
    response.body(output[end + 4..].to_vec().into()).unwrap()
}

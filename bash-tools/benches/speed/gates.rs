//! Cost of a closed gate for the requests of an app that does not use the tools, beside the same app without the layer.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use axum::http::{Request, Response};
use bash_tools::config::{self, Environment};
use bash_tools::gates::{BashToolsLayer, Gates};
use futures::FutureExt;
use tower::{Layer, Service, service_fn};

const REQUESTS: u32 = 20_000;
const ROUNDS: usize = 51;

const ENABLED: &str = "[app.bash_tools]\nenabled = true\nprovider = 'docker'\naccess = 'lan'\n\
    docker.orchestrator_url = 'http://127.0.0.1:1'\ndocker.admin_token_env = 'SANDBOXD_TOKEN'\nseed.git_url = 'https://git.lan/x'\n";

pub(crate) fn measure() {
    println!("\na request through the layer with a closed gate, median of {ROUNDS} rounds");
    let bare = service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(())) });
    let without = each(bare);
    let closed = [("the file", "", "1"), ("the switch", ENABLED, "0"), ("the access policy", ENABLED, "1")];
    for (by, file, switch) in closed {
        let gated = each(BashToolsLayer::new(gates(file, switch)).layer(bare));
        println!(
            "  closed by {by:<18} {gated:>6.2} us, without the layer {without:.2} us    (goal: under 5 us)"
        );
    }
}

fn gates(file: &str, switch: &str) -> Gates {
    let tools = config::parse(file).unwrap().tools;
    let find = |name: &str| match name {
        "REMCOCHAT_ENABLE_BASH_TOOL" => Some(switch.to_owned()),
        "SANDBOXD_TOKEN" => Some("sandboxd's".to_owned()),
        _ => None,
    };
    Gates::new(tools.as_ref(), &Environment::read(tools.as_ref(), find)).unwrap()
}

/// Microseconds of one request.
fn each<S>(mut service: S) -> f64
where
    S: Service<Request<()>, Response = Response<()>, Error = Infallible>,
{
    let mut rounds = [Duration::ZERO; ROUNDS];
    for round in &mut rounds {
        let began = Instant::now();
        for _ in 0..REQUESTS {
            black_box(service.call(black_box(Request::new(()))).now_or_never().unwrap().unwrap());
        }
        *round = began.elapsed() / REQUESTS;
    }
    rounds.sort();
    rounds[ROUNDS / 2].as_secs_f64() * 1e6
}

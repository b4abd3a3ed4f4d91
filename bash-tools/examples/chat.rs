//! A chat app without a model: `POST /api/bash/{chat}` runs a command in a chat's sandbox and streams its state.

#![expect(clippy::print_stdout, reason = "prints how to try it")]

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::post};
use bash_tools::App;
use bash_tools::config::{self, Environment, process_environment};
use bash_tools::gates::{BashToolsLayer, Decision, Gates, access_route};
use bash_tools::session::ChatKey;
use bash_tools::tools::BashInput;
use futures::StreamExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;

async fn bash(
    State(app): State<App>,
    Path(chat): Path<String>,
    tools: Decision,
    Json(input): Json<BashInput>,
) -> Response {
    let key = match ChatKey::chat(&chat) {
        Ok(key) => key,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let toolkit = match app.toolkit(tools, key) {
        Ok(toolkit) => toolkit,
        Err(closed) => return (StatusCode::FORBIDDEN, closed.to_string()).into_response(),
    };
    // The stream is dropped when the browser disconnects, which ends the command.
    let values = toolkit.bash(input, CancellationToken::new());
    let lines = values.map(|value| {
        let line = value.map_or_else(|error| json!({ "error": error.to_string() }), |value| json!(value));
        Ok::<_, Infallible>(format!("{line}\n"))
    });
    Body::from_stream(lines).into_response()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tools = config::load(process_environment)?.tools;
    let environment = Environment::read(tools.as_ref(), process_environment);
    let gates = Gates::new(tools.as_ref(), &environment)?;
    let app = App::new(tools.as_ref().ok_or("app.bash_tools.enabled is false")?, &environment)?;
    let router = Router::new()
        .route("/api/bash/{chat}", post(bash))
        .route("/api/admin/access", access_route(gates.clone()))
        .layer(BashToolsLayer::new(gates))
        .with_state(app);
    // Not 3000, where `make up` and `make up-native` have their chat.
    let address = process_environment("CHAT_EXAMPLE_BIND").unwrap_or_else(|| "127.0.0.1:3100".to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await.map_err(|error| {
        format!("cannot listen on {address}: {error}; set CHAT_EXAMPLE_BIND to another address")
    })?;
    let address = listener.local_addr()?;
    println!(
        "curl -iN http://{address}/api/bash/42 -H 'content-type: application/json' -d '{{\"command\":\"for i in 1 2 3; do echo $i; sleep 1; done\"}}'"
    );
    axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

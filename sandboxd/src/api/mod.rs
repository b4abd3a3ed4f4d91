//! The HTTP layer: decodes requests, calls the service and encodes responses.
//!
//! Owns routes, authentication, the shape of errors and the request log. Makes no decisions about sandboxes. Every
//! route except health and readiness returns 401 before any other check, even if the path is unknown. [`surface`]
//! connects servers of other protocols.

mod acts;
mod audit;
mod auth;
mod batch;
mod body;
mod caller;
mod child_token;
mod client_address;
mod command;
mod command_body;
mod connections;
mod context;
mod context_tools;
mod decode;
mod denial;
mod docs;
mod docs_assets;
mod error;
mod files;
mod front;
mod health;
mod history;
mod hosts;
mod mcp;
mod metrics;
mod ndjson;
mod network;
mod openapi;
mod orphan;
mod pace;
mod params;
mod port;
mod project;
mod race;
mod rates;
mod repository;
mod request_log;
mod router;
mod run;
mod run_records;
mod sandbox;
mod server;
mod snapshot;
mod snapshot_changes;
mod snapshot_check;
mod snapshot_file;
mod state;
mod stdin;
mod surface;
mod terminal;
mod terminal_socket;
mod ticket;
mod tickets;
mod tunnel;
mod value;
mod verb;

use axum::http::HeaderValue;

pub use router::{SurfaceSetup, Surfaces, router, surfaces};
pub use server::serve;
pub use state::{ApiState, Clients};

/// Content type of every JSON response.
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

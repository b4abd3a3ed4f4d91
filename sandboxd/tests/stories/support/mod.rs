//! Shared parts of the stories: the daemon, the engine, servers, visitors and browsers.

pub(crate) mod admin_page;
pub(crate) mod browser;
pub(crate) mod disk_image;
pub(crate) mod engine_proxy;
pub(crate) mod engine_view;
#[path = "../../../crates/store/tests/store/sqlite/fault_injection.rs"]
pub(crate) mod fault_injection;
pub(crate) mod files;
pub(crate) mod harness;
pub(crate) mod host_view;
pub(crate) mod http;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod network;
pub(crate) mod operations;
pub(crate) mod private_engine;
pub(crate) mod processes;
pub(crate) mod runs;
pub(crate) mod screens;
pub(crate) mod sink;
pub(crate) mod state_copy;
pub(crate) mod user_terminal;
pub(crate) mod visitor;
pub(crate) mod web_socket;

//! sandboxd's tools over the Model Context Protocol (MCP), for hosts such as Claude Code, Cursor and Open WebUI.
//!
//! - [`http`]: streamable HTTP, as a route for the daemon's router
//! - [`stdio`]: standard input and output, for a host that starts a program
//!
//! - [`wrap()`]: a server of a third party, which runs in a sandbox. [`http`] serves those that are registered.
//!
//! Both serve the revision 2026-07-28 and the older ones with a handshake. Every call goes to the daemon as a request
//! of its HTTP API, with the caller's own token. The server has no other way to a sandbox.

mod approval;
mod framing;
mod http_server;
mod logging;
mod pipe;
mod profile;
mod progress;
mod resources;
mod seal;
mod server;
mod session_owner;
mod sessions;
mod stdio;
mod streamable;
mod subscriptions;
mod wrap;

pub use http_server::{http, http_with};
pub use server::Server;
pub use stdio::{Error, Options, stdio};
pub use wrap::{PinError, Unpinned, WrapError, WrapOptions, wrap};

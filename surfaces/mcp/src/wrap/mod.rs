//! Wrapped servers: MCP servers of third parties that run in a sandbox and are served to a host.
//!
//! A server is a command of the sandbox. It reads requests from its standard input and writes answers to its standard
//! output, in the revisions with a handshake. Everything that it writes is untrusted: messages have a maximum length,
//! calls in flight a maximum number, and its requests to the host are disabled by default.
//!
//! - [`upstream`]: starts a server for a call, ends it when it is idle, and waits longer after each failed start
//! - [`link`]: requests to the server and its answers
//! - [`tools`]: the digest of the tool list, which a user approves
//! - [`downloaders`]: programs that download packages
//! - [`pin`]: the version of the package that a server is started from
//! - [`handler`]: the server that a host sees

mod downloaders;
mod handler;
mod lines;
mod link;
mod listener;
mod outcome;
mod pin;
mod pin_file;
mod process;
mod program;
mod registrations;
mod resolve;
mod routes;
mod single;
mod tools;
mod unpinned;
mod upstream;
mod upstreams;

pub use pin_file::PinError;
pub use program::wrap;
pub use single::{WrapError, WrapOptions};
pub use unpinned::Unpinned;

pub(crate) use routes::http;

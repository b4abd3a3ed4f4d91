//! What the daemon asks git servers and package registries: which commit a name means, and the bytes of one commit.
//!
//! All requests go through the gate of the sandboxes, so they reach no address that a sandbox must not reach. They are over
//! TLS, and a token is sent to its own host only. [`Relay`] does the same for the git program of a sandbox, which speaks plain
//! HTTP to it and knows neither the token nor the server's address.
//!
//! Everything that a server sends is hostile: its size, its names and where it redirects to.

mod client;
mod error;
mod look_up;
mod pkt_line;
mod registry;
mod relay;

pub use client::Client;
pub use error::Error;
pub use registry::Package;
pub use relay::Relay;

//! What the daemon asks git servers and package registries: which commit a name means, and the bytes of one commit. The same of
//! the directories that the operator allows ([`Directory`]).
//!
//! All requests to servers go through the gate of the sandboxes, so they reach no address that a sandbox must not reach. They are over
//! TLS, and a token is sent to its own host only. [`Relay`] does the same for the git program of a sandbox, which speaks plain
//! HTTP to it and knows neither the token nor the server's address. [`PackageRelay`] is the same for packages of Python.
//!
//! Everything that a server sends is hostile: its size, its names and where it redirects to.

mod client;
mod directory;
mod error;
mod index_page;
mod look_up;
mod package_relay;
mod pkt_line;
mod registry;
mod relay;

pub use client::Client;
pub use directory::{Directory, DirectoryContents, DirectoryDigest};
pub use error::Error;
pub use package_relay::{Lacks, PackageRelay};
pub use registry::Package;
pub use relay::Relay;

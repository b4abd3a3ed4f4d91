//! The network access of sandboxes: decides whether a sandbox may connect, to which address, and copies the bytes.
//!
//! A [`Gate`] decides by the sandbox's policy and resolves the name itself. Every address of the name must be one
//! that sandboxes may reach, and the connection is made to one of the checked addresses. So a name that resolves
//! differently a moment later changes nothing. This crate knows no sandboxes: the service owns the policies, the
//! waiting processes and the counters.

mod address;
mod blocked;
mod broken;
mod budget;
mod carry;
mod dial;
mod error;
mod gate;
mod handshake;
mod hello;
mod here;
mod inspect;
mod meter;
mod one_way;
mod other;
mod request_line;
mod resolve;
mod upstream;
mod web;

#[cfg(test)]
mod tests;

pub use blocked::{BlockedPort, PublishedAt};
pub use broken::Broken;
pub use budget::Budget;
pub use carry::carry;
pub use dial::RemoteEndpoint;
pub use error::Error;
pub use gate::Gate;
pub use inspect::Expected;
pub use meter::{Meter, Tally};

//! What a sandbox reaches of the world: whether it may, at which address, and the bytes between.
//!
//! A [`Gate`] decides by the sandbox's policy and resolves the name itself. Every address that the name has must be one
//! that sandboxes may reach, and the connection is made to one of those that were checked, so a name that means something
//! else a moment later changes nothing. This room knows no sandbox: whose policy it is, who waits for the answer and what
//! is counted is the service's.

mod address;
mod broken;
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
mod shut;
mod upstream;
mod web;

#[cfg(test)]
mod tests;

pub use broken::Broken;
pub use carry::carry;
pub use dial::Far;
pub use error::Error;
pub use gate::Gate;
pub use inspect::Expected;
pub use meter::{Meter, Tally};
pub use shut::{KeptShut, PublishedAt};

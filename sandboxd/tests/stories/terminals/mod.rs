//! Terminals: sessions, screens, viewers, the WebSocket and `sandboxd shell`.

mod bounds;
mod recovery;
mod session;
mod shell;
mod socket;

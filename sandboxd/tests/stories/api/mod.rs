//! The HTTP API: its document, its connections, its bounds and its answers to bad input.

mod ambiguity;
mod bad_input;
mod bounds;
mod connections;
mod keep_alive;
mod openapi;

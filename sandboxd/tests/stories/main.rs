//! The real daemon on the real engine, through the client its users have. One story per test.

mod bad_input;
mod bounds;
mod command;
mod door;
mod engine_view;
mod harness;
mod http;
mod output;

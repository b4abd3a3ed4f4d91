//! The real daemon on the real engine, through the client its users have. One story per test.

mod command;
mod harness;
mod output;

//! How fast sandboxd is, each number beside its rival's in the same run.
//!
//! Contenders take turns in blocks, so that a noisy while meets all of them. A block and not a single call,
//! and a pause after each, because an exec leaves the engine and its shims busy for a while after its answer,
//! which is its own cost and not its neighbour's. Nothing here fails on a number: it prints them with the
//! goal beside. An argument names one part: `commands`, `terminals`, `files`, `previews`, `egress`, `lifecycle` or `crowd`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its table and ends where it cannot go on"
)]

mod commands;
mod contenders;
mod crowd;
mod egress;
mod files;
mod home;
mod lifecycle;
mod memory;
mod previews;
mod table;
mod terminals;
mod web;

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    // `cargo test --benches` passes this; there is nothing to test in a bench.
    if std::env::args().any(|arg| arg == "--test") {
        return ExitCode::SUCCESS;
    }
    let mut bench = tokio::spawn(measure());
    let done = tokio::select! {
        done = &mut bench => done.is_ok(),
        () = interrupted() => {
            println!("\ninterrupted; removing what was made");
            bench.abort();
            let _ = bench.await;
            false
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn measure() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wanted("commands") {
        commands::measure().await;
    }
    if wanted("terminals") {
        terminals::measure().await;
    }
    if wanted("files") {
        files::measure().await;
    }
    if wanted("previews") {
        previews::measure().await;
    }
    if wanted("egress") {
        egress::measure().await;
    }
    if wanted("lifecycle") {
        lifecycle::measure().await;
    }
    if wanted("crowd") {
        crowd::measure().await;
    }
}

async fn interrupted() {
    let mut interrupt = signal(SignalKind::interrupt()).unwrap();
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

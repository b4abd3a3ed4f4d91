//! Speed of sandboxd, each number beside a competitor's from the same run. Contenders take turns in blocks, so that
//! temporary load affects all of them. The unit is a block with a pause after it, because an exec keeps the engine and
//! its shims busy for a while after its response, which is the exec's own cost. It prints each number with its goal, and writes
//! all as JSON and Markdown. With `CHECK=1`, a ratio that is 15 % worse than the kept one makes it fail. An argument selects
//! one part: `commands`, `rivals`, `terminals`, `files`, `previews`, `egress`, `lifecycle`, `pool`, `growth`, `held`, `crowd`,
//! `projects`, `neighbors`, `snapshots`, `repositories`, `contexts`, `tools` or `wrapped`. After `neighbors`, names of loads select some of them.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its table and ends if it cannot continue"
)]

mod commands;
mod contenders;
mod contexts;
mod crowd;
mod egress;
mod files;
mod growth;
mod held;
mod home;
mod lifecycle;
mod memory;
mod neighbors;
mod plots;
mod pool;
mod previews;
mod projects;
mod report;
mod repositories;
mod rivals;
mod snapshots;
mod table;
mod terminals;
mod tools;
mod web;
mod wrapped;

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    // `cargo test --benches` passes this. A benchmark has no tests.
    if std::env::args().any(|arg| arg == "--test") {
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == neighbors::LOUD_PROCESS) {
        neighbors::be_loud(&arguments[1..]).await;
        return ExitCode::SUCCESS;
    }
    let mut bench = tokio::spawn(measure());
    let done = tokio::select! {
        done = &mut bench => done.is_ok() && report::finish().await,
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
    if wanted("rivals") {
        rivals::measure().await;
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
    if wanted("pool") {
        pool::measure().await;
    }
    if wanted("growth") {
        growth::measure().await;
    }
    if wanted("held") {
        held::measure().await;
    }
    if wanted("crowd") {
        crowd::measure().await;
    }
    if wanted("projects") {
        projects::measure().await;
    }
    if wanted("neighbors") {
        neighbors::measure(&parts).await;
    }
    if wanted("snapshots") {
        snapshots::measure().await;
    }
    if wanted("repositories") {
        repositories::measure().await;
    }
    if wanted("contexts") {
        contexts::measure().await;
    }
    if wanted("tools") {
        tools::measure().await;
    }
    if wanted("wrapped") {
        wrapped::measure().await;
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

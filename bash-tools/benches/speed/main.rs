//! How fast the crate is, each number beside a rival's in the same run. Nothing here fails on a number: it prints them with the
//! goal beside. An argument names one part: `gates`, `tail`, `sessions` or `tools`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its table and ends where it cannot go on"
)]

mod gates;
mod sessions;
mod tail;
mod tools;

#[tokio::main]
async fn main() {
    // `cargo test --benches` passes this; there is nothing to test in a bench.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let parts: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wanted("gates") {
        gates::measure();
    }
    if wanted("tail") {
        tail::measure();
    }
    if wanted("sessions") {
        sessions::measure().await;
    }
    if wanted("tools") {
        tools::measure().await;
    }
}

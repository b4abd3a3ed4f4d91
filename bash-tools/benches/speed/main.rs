//! Speed of the crate, each number beside a competitor's from the same run. No number makes the benchmark fail: it
//! prints each with its goal. An argument selects one part: `gates`, `tail`, `sessions` or `tools`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its table and ends if it cannot continue"
)]

mod gates;
mod sessions;
mod tail;
mod tools;

#[tokio::main]
async fn main() {
    // `cargo test --benches` passes this. A benchmark has no tests.
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

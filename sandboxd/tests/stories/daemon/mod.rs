//! The daemon as a process: its start, its stop, its state directory, its log and its metrics.

mod database;
mod log;
mod metrics;
mod process;
mod shutdown;
mod start_record;
mod start_up;
mod state_dir;

//! CLI commands, each run as a separate process.

mod commands;
mod cp;
mod doctor;
mod logs;
mod manage;
mod repo;
mod run;
mod trial;

//! The chat app over HTTP, with a real sandboxd on a real engine.

#![expect(clippy::unwrap_used, reason = "a story that cannot continue has failed")]

mod access;
mod browser;
mod browser_cable;
mod browser_faults;
mod browser_flood;
mod browser_hostile;
mod browser_people;
mod browser_python;
mod browser_terminal;
mod chats;
mod clients;
mod commands;
mod faults;
mod files;
mod network;
mod restart;
#[path = "../scripted_model/mod.rs"]
#[expect(dead_code, reason = "the tests of the models use all of it")]
mod scripted_model;
mod terminals;
mod test_app;
mod turns;
mod users;

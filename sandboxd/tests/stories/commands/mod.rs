//! Commands: how they start, what they write and read, and how they end.

mod batch;
mod debug;
mod exactly_once;
mod follow;
mod kill;
mod limits;
mod output;
mod path;
mod read_only;
mod readers;
mod run;
mod run_to_end;
mod secrets;
mod stages;
mod starved;
mod stdin;
mod unread;
mod waiting_shells;

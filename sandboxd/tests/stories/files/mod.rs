//! Files: read, written, edited, searched, watched, packed and bounded.

mod archive;
mod basics;
mod conditions;
mod content;
mod edit;
mod links;
mod paths;
mod refusals;
mod search;
mod secrets;
mod transfers;
mod tree;
mod watch;

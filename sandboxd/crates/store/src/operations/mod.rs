//! The operations of the [`Store`](crate::Store): what each promises, whichever database is behind it.

mod commands;
mod daemon;
mod links;
mod mcp_servers;
mod projects;
mod quotas;
mod repositories;
mod sandboxes;
mod snapshots;
mod values;

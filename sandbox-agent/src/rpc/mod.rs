//! The agent's gRPC services: decode, call, encode.
//!
//! [`agent`] has the calls about commands and the agent itself. [`files`], [`snapshots`], [`terminals`] and [`tunnels`]
//! have the others. [`Services`] routes each call to its service, and [`Service`] is the state behind them.

mod agent;
mod archive;
mod contexts;
mod file_service;
mod files;
mod messages;
mod read_root;
mod service;
mod services;
mod snapshots;
mod stdin;
mod terminals;
mod tunnels;

pub(crate) use self::file_service::FileService;
pub(crate) use self::service::Service;
pub(crate) use self::services::Services;

//! The state that all calls share.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tokio::sync::Notify;
use tonic::{Response, Status};

use super::file_service::FileService;
use crate::commands::Commands;
use crate::contexts::Contexts;
use crate::terminals::Terminals;
use crate::tunnels::Tunnels;

/// Result of a call.
pub(super) type Reply<T> = Result<Response<T>, Status>;
/// Stream of a call.
pub(super) type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// State behind the calls that sandboxd makes.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) commands: Arc<Commands>,
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) terminals: Arc<Terminals>,
    pub(crate) files: FileService,
    pub(crate) tunnels: Arc<Tunnels>,
    /// Notified when sandboxd requests a shutdown.
    pub(crate) shutdown: Arc<Notify>,
}

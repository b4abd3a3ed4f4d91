//! The shared context of the components.

use std::sync::Arc;

use super::setup::Setup;
use super::tasks::Tasks;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::model::Instance;
use crate::store::Store;

/// Shared parts of every component. None of them is a component's state.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) engine: Engine,
    pub(super) store: Arc<Store>,
    pub(super) instance: Arc<Instance>,
    pub(super) setup: Arc<Setup>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tasks: Tasks,
}

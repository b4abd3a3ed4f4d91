//! What components have in common.

use std::sync::Arc;

use super::setup::Setup;
use super::tasks::Tasks;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::model::Instance;
use crate::store::Store;

/// What every component is created from. None of it is a component's state.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) engine: Engine,
    pub(super) store: Arc<Store>,
    pub(super) instance: Arc<Instance>,
    pub(super) setup: Arc<Setup>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tasks: Tasks,
}

//! A chat app whose model has a real bash.
//!
//! In reading order: [`settings`] is what the operator wrote. [`model`] asks models, a [`turn`] answers what a person said, the
//! [`store`] keeps both, and the [`api`] is what pages ask.

pub mod api;
pub mod model;
pub mod settings;
pub mod store;
pub mod turn;

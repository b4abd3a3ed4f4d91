//! A chat app whose model has a real bash.
//!
//! In reading order: [`settings`] are the operator's. [`model`] sends requests to models. A [`turn`] answers a
//! message of the user. The [`store`] keeps both, and the [`api`] serves the page.

pub mod api;
pub mod model;
pub mod settings;
pub mod store;
pub mod turn;

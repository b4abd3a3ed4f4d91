//! A chat app whose model has a real bash.
//!
//! In reading order: [`settings`] are the operator's. [`model`] sends requests to models. A [`turn`] answers a
//! message of the user. An [`account`] says who that is. The [`store`] keeps chats and accounts. [`people`] sign in, the
//! [`api`] serves the page, and the [`operator`] has commands of their own.

pub mod account;
pub mod api;
pub mod model;
pub mod oidc;
pub mod operator;
pub mod people;
pub mod settings;
pub mod store;
pub mod turn;

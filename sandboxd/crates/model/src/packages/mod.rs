//! Python packages on request: which ones a request asks for, and what is kept of a set that was resolved.
//!
//! A requirement is parsed into a name and versions, and written again from them. So it is never an option, an address or a
//! path to the program that resolves it.

mod requirement;
mod set;
mod settings;

pub use requirement::Requirement;
pub use set::{PackageSet, PackageSetKey, SANDBOX_KEYS};
pub use settings::PackageSettings;

//! The secret values of a command or terminal, as sandboxd sends them.

use agent_protocol::v1;
pub(crate) use output_text::{Redactor, Secrets};

pub(crate) fn from_wire(given: Vec<v1::Secret>) -> Vec<output_text::Secret> {
    given.into_iter().map(|v1::Secret { name, value }| output_text::Secret { name, value }).collect()
}

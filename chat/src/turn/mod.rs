//! A turn: from what the person said to the end of the answer.
//!
//! A turn asks the model, does what it calls for, tells it the results, and so on until it has nothing more to call or has had
//! [`MAX_STEPS`] of those steps. Everything that happens is a [`Chunk`], sent to the page and kept for the chat in one go, so that
//! what is read again is what was seen. A page that leaves ends the turn: the model's answer is dropped and commands are ended.

mod chunk;
mod history;
mod out;
mod run;
mod script;
mod slash;
mod step;
mod tools;

pub use chunk::{Chunk, FinishReason, Opening};
pub use history::{Message, Role, turns_of};
pub use out::{Ending, Out, Parts};
pub use run::{Asked, Turn};
pub use slash::{MAX_COMMAND_CHARS, command_of};

/// Times that a model is asked in one turn.
pub const MAX_STEPS: usize = 20;

/// What is kept of one turn, in bytes, before its model is heard no further.
pub const MAX_TURN_BYTES: usize = 8 * 1024 * 1024;

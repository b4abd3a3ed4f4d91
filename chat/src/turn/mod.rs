//! A turn: from the user's message to the end of the answer.
//!
//! In each step, a turn sends a request to the model, runs the tools that it calls, and returns the results. The turn
//! ends when there are no more calls, or after [`MAX_STEPS`] steps. Every event is a [`Chunk`] that is said to the pages
//! that watch, and stored for the chat together, so a reload shows the same. A turn does not depend on pages: they join it
//! ([`Live`]) and leave it, and only its cancellation ends it early. If the app ends, the next instance continues it
//! ([`Stored`]).

mod chunk;
mod chunks;
mod history;
mod live;
mod out;
mod resumed;
mod run;
mod script;
mod slash;
mod step;
mod tools;

pub use chunk::{Chunk, FinishReason, Opening};
pub use history::{Message, Role, turns_of};
pub use live::{Live, MAX_PAGES, MAX_REPLAY_BYTES, Speaker, Watcher};
pub use out::{Ending, Out, Parts, Version};
pub use resumed::Stored;
pub use run::{Responder, Turn};
pub use slash::{MAX_COMMAND_CHARS, command_of};

/// Maximum number of requests to the model in one turn.
pub const MAX_STEPS: usize = 20;

/// Maximum size of one turn's stored answer in bytes. The turn ends when it is reached.
pub const MAX_TURN_BYTES: usize = 8 * 1024 * 1024;

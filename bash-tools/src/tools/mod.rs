//! What the model calls.
//!
//! [`Toolkit`] is the tools of one chat, for any program; a model's own words become a [`Call`]. [`definitions`] tells a model of
//! them.

pub mod anthropic;
mod bash;
mod call;
mod definition;
mod error;
mod input;
mod output;
mod read;
mod text;
mod toolkit;

pub use bash::{FLUSH_AFTER, FLUSH_CHARS, FLUSH_PAUSE};
pub use call::{Answer, Call};
pub use definition::{Definition, Surroundings, Tool, definitions};
pub use error::{Error, Result};
pub use input::{
    BashInput, FileContent, ReadFileInput, SandboxUrl, SandboxUrlInput, WriteFileInput, Written,
};
pub use output::{BashOutput, CANCELLED, OutputLimits, RUNNING, TIMED_OUT};
pub use text::{Head, Tail};
pub use tokio_util::sync::CancellationToken;
pub use toolkit::{ToolLimits, Toolkit};

//! Tools that the model calls.
//!
//! [`Toolkit`] has the tools of one chat. A [`Call`] is a tool call in the form that a model sends. [`definitions`]
//! describes the tools to a model.

pub mod anthropic;
mod bash;
mod call;
mod definition;
mod error;
mod hooks;
mod output;
mod read;
mod toolkit;

pub use bash::{FLUSH_AFTER, FLUSH_CHARS, FLUSH_PAUSE};
pub use call::{Answer, Call};
pub use definition::{Definition, DescriptionContext, Tool, definitions};
pub use error::{Error, Result};
pub use hooks::CommandHooks;
pub use output::{BashOutput, CANCELLED, OutputLimits, RUNNING, TIMED_OUT};
pub use output_text::{Keep, Part};
pub use tokio_util::sync::CancellationToken;
pub use toolbox::KeptPart;
pub use toolbox::chat::{
    BashInput, FileContent, OutputPart, ReadFileInput, SandboxUrl, SandboxUrlInput, WriteFileInput, Written,
};
pub use toolkit::{ToolLimits, Toolkit};

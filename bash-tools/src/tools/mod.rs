//! Tools that the model calls.
//!
//! [`Toolkit`] has the tools of one chat. A [`Call`] is a tool call in the form that a model sends. [`definitions`]
//! describes the tools to a model.

pub mod anthropic;
mod bash;
mod call;
mod code;
mod definition;
mod error;
mod hooks;
mod output;
mod pace;
mod python;
mod read;
mod toolkit;

pub use call::{Answer, Call};
pub use definition::{Definition, DescriptionContext, Tool, definitions};
pub use error::{Error, Result};
pub use hooks::CommandHooks;
pub use output::{BashOutput, CANCELLED, OutputLimits, RUNNING, TIMED_OUT};
pub use output_text::{Keep, Part};
pub use pace::{FLUSH_AFTER, FLUSH_CHARS, FLUSH_PAUSE};
pub use python::{HostCall, HostTool, Python};
pub use sandbox_api::tool::{ToolError, ToolErrorType};
pub use tokio_util::sync::CancellationToken;
pub use toolbox::KeptPart;
pub use toolbox::chat::{
    BashInput, Callable, CodeError, FileContent, OutputPart, PythonInput, PythonOutput, PythonStatus,
    ReadFileInput, SandboxUrl, SandboxUrlInput, Shown, WriteFileInput, Written,
};
pub use toolkit::{ToolLimits, Toolkit};

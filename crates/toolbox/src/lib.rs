//! The tools that a model can call in a sandbox.
//!
//! [`Toolbox`] executes a call by its name and JSON arguments, over sandboxd's API. [`Tool::definition`] describes a
//! tool to a model. Every host offers these tools: the MCP server, and others that follow. A [`Profile`] offers the tools
//! of another system instead. The tools of the crate `bash-tools` are defined in [`chat`].
//!
//! What a tool reports to the model is a [`Reply`]. A mistake of the model and a failure of the sandbox are replies
//! too, so that the model reads them. Only a name without a tool is an [`UnknownTool`].

mod approval;
mod approval_log;
mod bash;
pub mod chat;
mod cursors;
mod definition;
mod denied;
mod descriptions;
mod error;
mod files;
mod host_root;
mod images;
mod input;
mod kept;
mod keys;
mod output;
mod profile;
mod profiles;
mod programs;
mod progress;
mod reply;
mod repository;
mod resource_watch;
mod resources;
mod run;
mod sandboxes;
mod search;
mod session;
mod skills;
mod stages;
mod terminals;
mod toolbox;
mod transfers;

pub use approval::{Answer, Approval, Pending, Question, Questions, Resume, Resumed};
pub use definition::{Definition, Hints, Tool};
pub use error::Error;
pub use host_root::HostRoot;
pub use kept::{InvalidOutput, KeptPart};
pub use profile::Profile;
pub use reply::{Block, Reply};
pub use resource_watch::ResourceWatch;
pub use resources::{RESOURCE_TEMPLATE, Resource, ResourceContent};
pub use sandboxes::{Namespace, NamespaceError};
pub use session::Session;
pub use toolbox::{Call, Memory, Progress, Toolbox, UnknownTool};

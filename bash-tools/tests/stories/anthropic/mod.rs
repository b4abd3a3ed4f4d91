//! The tools that Anthropic's models know.

mod editor;
mod meddler;
mod shell;
mod shell_ends;

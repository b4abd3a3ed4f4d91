//! The tools of Anthropic's models.

mod concurrent_writer;
mod editor;
mod shell;
mod shell_ends;

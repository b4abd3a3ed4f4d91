//! The tools of Anthropic's models.

mod editor;
mod meddler;
mod shell;
mod shell_ends;

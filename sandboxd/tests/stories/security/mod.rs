//! Who is let in, and what a sandbox cannot do.

mod access;
mod flood;
mod hardening;
mod token_guesses;

//! The crate as a chat app uses it, over each provider: sandboxd itself on the real engine, and what stands in for Vercel.

#![expect(clippy::unwrap_used, reason = "a story that cannot go on has failed")]

mod anthropic;
mod bash;
mod files;
mod place;
mod seed;
mod seed_faults;
mod seed_git;
mod seed_retries;
mod seed_server;
mod seed_upload;
mod sessions;
mod trouble;
mod vercel;
mod vercel_fake;
mod vercel_npm;
mod workspace;

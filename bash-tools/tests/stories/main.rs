//! The crate as a chat app uses it, over each provider: a real sandboxd on a real engine, and a fake of Vercel's API.

#![expect(clippy::unwrap_used, reason = "a story that cannot continue has failed")]

mod anthropic;
mod bash;
mod checkpoints;
mod files;
mod fixture;
mod kept;
mod python;
mod seed;
mod seed_faults;
mod seed_git;
mod seed_retries;
mod seed_shared;
mod seed_upload;
mod sessions;
mod trouble;
mod vercel;
mod vercel_fake;
mod vercel_npm;
mod workspace;

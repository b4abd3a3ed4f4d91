//! The crate as a chat app uses it, over each provider: sandboxd itself on the real engine, and what stands in for Vercel.

#![expect(clippy::unwrap_used, reason = "a story that cannot go on has failed")]

mod bash;
mod files;
mod place;
mod sessions;
mod vercel;
mod vercel_fake;
mod vercel_npm;

//! The crate as a chat app uses it, over each provider: sandboxd itself on the real engine, and what stands in for Vercel.

mod bash;
mod files;
mod place;
mod sessions;

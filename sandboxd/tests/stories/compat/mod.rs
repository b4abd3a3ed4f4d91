//! The original daemon: its client and its sandboxes.

mod original_client;
mod original_sandboxes;

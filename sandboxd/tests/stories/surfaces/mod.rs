//! Other protocols than the HTTP API.

mod mcp;
mod mcp_client;
mod mcp_commands;
mod mcp_tokens;
mod stdio;

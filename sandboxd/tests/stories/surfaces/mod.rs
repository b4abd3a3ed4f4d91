//! Other protocols than the HTTP API.

mod conformance;
mod large_output;
mod many_conversations;
mod mcp;
mod mcp_client;
mod mcp_commands;
mod mcp_http;
mod mcp_images;
mod mcp_resources;
mod mcp_skills;
mod mcp_terminals;
mod mcp_tokens;
mod openapi_tools;
mod published;
mod stdio;
mod stdio_framing;

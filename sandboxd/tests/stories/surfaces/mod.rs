//! Other protocols than the HTTP API.

mod admin;
mod admin_browser;
mod conformance;
mod host_configs;
mod host_programs;
mod large_output;
mod many_conversations;
mod mcp;
mod mcp_approval;
mod mcp_client;
mod mcp_commands;
mod mcp_http;
mod mcp_images;
mod mcp_resources;
mod mcp_skills;
mod mcp_terminals;
mod mcp_tokens;
mod open_terminal;
mod open_terminal_client;
mod open_terminal_socket;
mod open_terminal_transfers;
mod openapi_tools;
mod owners;
mod profile_boxsh;
mod profile_chat;
mod profile_sql_fs;
mod published;
mod secrets;
mod stdio;
mod stdio_framing;
mod stdio_root;
mod wrapped;
mod wrapped_hostile;
mod wrapped_secrets;
mod wrapped_stdio;

pub(crate) use mcp_tokens::home_with_tokens;

//! `sandboxd mcp --print-config`: how a host is configured to use the MCP server.
//!
//! No configuration has a secret: each refers to a variable of the host's environment, or asks the user.

use std::io::{self, Write};

use toolbox::Profile;

/// A program that uses MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Host {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    #[value(name = "vscode")]
    VsCode,
    Codex,
    #[value(name = "librechat")]
    LibreChat,
    #[value(name = "open-webui")]
    OpenWebUi,
}

/// Where the configuration goes, and what else is to be done.
struct ConfigFile {
    file: &'static str,
    hint: &'static str,
}

/// The environment variable of the host that has the token.
const SET_TOKEN: &str = "set SANDBOX_TOKEN to a tool token in the environment of the host";

impl Host {
    fn config_file(self) -> ConfigFile {
        let (file, hint) = match self {
            Self::ClaudeCode => (".mcp.json", SET_TOKEN),
            Self::ClaudeDesktop => (
                "claude_desktop_config.json",
                "sandboxd takes the admin token from its settings or state dir",
            ),
            Self::Cursor => (".cursor/mcp.json", SET_TOKEN),
            Self::VsCode => (".vscode/mcp.json", "VS Code asks for a tool token"),
            Self::Codex => ("~/.codex/config.toml", SET_TOKEN),
            Self::LibreChat => ("librechat.yaml", SET_TOKEN),
            Self::OpenWebUi => ("docker-compose.yml", SET_TOKEN),
        };
        ConfigFile { file, hint }
    }

    /// The configuration for a server at `url`. Every URL is quoted as in JSON, which YAML and TOML read too.
    fn config(self, url: &str, profile: Profile) -> String {
        let (query, option) = match profile {
            Profile::Default => (String::new(), String::new()),
            other => (format!("?profile={}", other.name()), format!(r#", "--profile", "{}""#, other.name())),
        };
        let url = url.trim_end_matches('/');
        let (server, daemon) = (quoted(&format!("{url}/mcp{query}")), quoted(url));
        match self {
            Self::ClaudeCode => format!(
                r#"{{
  "mcpServers": {{
    "sandbox": {{
      "type": "http",
      "url": {server},
      "headers": {{ "Authorization": "Bearer ${{SANDBOX_TOKEN}}" }}
    }}
  }}
}}"#
            ),
            Self::ClaudeDesktop => format!(
                r#"{{
  "mcpServers": {{
    "sandbox": {{
      "command": "sandboxd",
      "args": ["mcp"{option}],
      "env": {{ "SANDBOXD_URL": {daemon} }}
    }}
  }}
}}"#
            ),
            Self::Cursor => format!(
                r#"{{
  "mcpServers": {{
    "sandbox": {{
      "url": {server},
      "headers": {{ "Authorization": "Bearer ${{env:SANDBOX_TOKEN}}" }}
    }}
  }}
}}"#
            ),
            Self::VsCode => format!(
                r#"{{
  "servers": {{
    "sandbox": {{
      "type": "http",
      "url": {server},
      "headers": {{ "Authorization": "Bearer ${{input:sandbox-token}}" }}
    }}
  }},
  "inputs": [
    {{ "type": "promptString", "id": "sandbox-token", "description": "Token of sandboxd", "password": true }}
  ]
}}"#
            ),
            Self::Codex => format!(
                r#"[mcp_servers.sandbox]
url = {server}
bearer_token_env_var = "SANDBOX_TOKEN""#
            ),
            Self::LibreChat => format!(
                r#"mcpServers:
  sandbox:
    type: streamable-http
    url: {server}
    headers:
      Authorization: "Bearer ${{SANDBOX_TOKEN}}"
      X-Sandbox-Session: "{{{{LIBRECHAT_BODY_CONVERSATIONID}}}}"
      X-LibreChat-User-Id: "{{{{LIBRECHAT_USER_ID}}}}""#
            ),
            Self::OpenWebUi => format!(
                r#"services:
  open-webui:
    environment:
      ENABLE_FORWARD_USER_INFO_HEADERS: "true"
      TOOL_SERVER_CONNECTIONS: >-
        [{{"type": "mcp", "url": {server}, "path": "", "auth_type": "bearer", "key": "${{SANDBOX_TOKEN}}",
        "config": {{"enable": true}}, "info": {{"id": "sandbox", "name": "Sandbox", "description": ""}}}}]"#
            ),
        }
    }
}

/// Prints the configuration to standard output, and where it goes to standard error.
pub(super) fn print_config(host: Host, url: &str, profile: Profile) -> io::Result<()> {
    let ConfigFile { file, hint } = host.config_file();
    writeln!(io::stderr().lock(), "Add this to {file}. Then {hint}.")?;
    writeln!(io::stdout().lock(), "{}", host.config(url, profile))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    const DOCUMENT: &str = include_str!("../../../../docs/mcp.md");

    /// The URL that the document uses for a host: one on the same machine, or one in another container.
    fn url_in_document(host: Host) -> &'static str {
        match host {
            Host::LibreChat | Host::OpenWebUi => "http://sandboxd:8080",
            _ => "http://127.0.0.1:8080",
        }
    }

    #[test]
    fn the_document_has_every_configuration() {
        for host in Host::value_variants() {
            let config = host.config(url_in_document(*host), Profile::Default);
            assert!(
                DOCUMENT.contains(&format!("\n{config}\n")),
                "docs/mcp.md differs for {host:?}:\n{config}"
            );
            let name = host.to_possible_value().unwrap().get_name().to_owned();
            assert!(DOCUMENT.contains(&format!("`{name}`")), "docs/mcp.md does not name {name}");
            assert!(DOCUMENT.contains(host.config_file().file), "{}", host.config_file().file);
        }
    }

    #[test]
    fn a_configuration_is_valid_and_has_the_profile() {
        for host in Host::value_variants() {
            let config = host.config("https://example.com:1/", Profile::SqlFs);
            let is_stdio = *host == Host::ClaudeDesktop;
            let expected = if is_stdio {
                r#""--profile", "sql-fs""#
            } else {
                r#""https://example.com:1/mcp?profile=sql-fs""#
            };
            assert!(config.contains(expected), "{config}");
            match host {
                Host::Codex => drop(toml::de::DeTable::parse(&config).unwrap()),
                // YAML, for which there is no parser here.
                Host::LibreChat | Host::OpenWebUi => {}
                _ => drop(serde_json::from_str::<serde_json::Value>(&config).unwrap()),
            }
        }
    }

    #[test]
    fn a_url_cannot_leave_its_quotes() {
        let config = Host::Cursor.config("http://a\"b\n/", Profile::Default);
        let config: serde_json::Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config["mcpServers"]["sandbox"]["url"], "http://a\"b\n/mcp");
    }
}

//! Host names of previews.

use crate::model::preview::PreviewToken;

/// A parsed host name of a preview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostName {
    /// Port in the sandbox.
    pub(super) port: u16,
    /// Token of a link to the port.
    pub(super) token: PreviewToken,
}

/// Parses the value of a Host header: `<port>-<token>.<domain>`, with or without a port and a trailing dot.
pub(super) fn parse_host(host: &str, domain: &str) -> Option<HostName> {
    let name = without_port(host);
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let label = name.strip_suffix(domain)?.strip_suffix('.')?;
    let (port, token) = label.split_once('-')?;
    // Only the form in links is valid. `03000` would be another origin for the same preview.
    let port = port.parse().ok().filter(|number: &u16| *number > 0 && number.to_string() == port)?;
    Some(HostName { port, token: PreviewToken::parse(token)? })
}

/// Removes the port from a host header.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_contains_port_and_token() {
        let text = "a".repeat(32);
        let token = PreviewToken::parse(&text).unwrap();
        let wanted = Some(HostName { port: 3000, token });
        for host in [
            format!("3000-{text}.localhost:8081"),
            format!("3000-{text}.localhost"),
            format!("3000-{}.LOCALHOST.:1", text.to_uppercase()),
        ] {
            assert_eq!(parse_host(&host, "localhost"), wanted, "{host}");
        }
    }

    #[test]
    fn other_host_names_are_rejected() {
        let text = "a".repeat(32);
        for host in [
            String::new(),
            "localhost:8081".into(),
            "127.0.0.1".into(),
            text.clone(),
            format!("{text}.localhost"),
            format!("0-{text}.localhost"),
            format!("03000-{text}.localhost"),
            format!("+3000-{text}.localhost"),
            format!("65536-{text}.localhost"),
            format!("3000-{text}.localhost.evil.example"),
            format!("3000-{text}xlocalhost"),
            format!("x.3000-{text}.localhost"),
            format!("3000-{text}.evil.example"),
            format!("3000-{}.localhost", &text[1..]),
        ] {
            assert_eq!(parse_host(&host, "localhost"), None, "{host}");
        }
    }
}

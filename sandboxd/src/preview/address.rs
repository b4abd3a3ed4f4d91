//! Which preview a host name means.

use crate::model::preview::PreviewToken;

/// What a preview's host name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// In the sandbox.
    pub(super) port: u16,
    /// Of a link to it.
    pub(super) token: PreviewToken,
}

/// Reads the value of a Host header: `<port>-<token>.<domain>`, with or without a port and a last dot.
pub(super) fn named(host: &str, domain: &str) -> Option<Named> {
    let name = without_port(host);
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let label = name.strip_suffix(domain)?.strip_suffix('.')?;
    let (port, token) = label.split_once('-')?;
    // As it is written in links: `03000` would be another origin for the same preview.
    let port = port.parse().ok().filter(|number: &u16| *number > 0 && number.to_string() == port)?;
    Some(Named { port, token: PreviewToken::parse(token)? })
}

/// A host as a header has it, without its port.
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
    fn a_host_name_says_port_and_token() {
        let text = "a".repeat(32);
        let token = PreviewToken::parse(&text).unwrap();
        let wanted = Some(Named { port: 3000, token });
        for host in [
            format!("3000-{text}.localhost:8081"),
            format!("3000-{text}.localhost"),
            format!("3000-{}.LOCALHOST.:1", text.to_uppercase()),
        ] {
            assert_eq!(named(&host, "localhost"), wanted, "{host}");
        }
    }

    #[test]
    fn what_is_no_name_of_a_preview_is_none() {
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
            assert_eq!(named(&host, "localhost"), None, "{host}");
        }
    }
}

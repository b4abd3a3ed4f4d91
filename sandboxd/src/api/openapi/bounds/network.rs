//! Bounds of network policies, ports and links.

use serde_json::{Value, json};

use super::kinds::{Row, one_of, range};
use crate::model::NetworkMode;
use crate::model::limits::*;

pub(super) fn rows() -> Vec<Row> {
    vec![
        (
            "Network",
            "mode",
            one_of(NetworkMode::ALL.map(NetworkMode::as_str), NetworkMode::default().as_str()),
        ),
        ("Network", "allow", json!({ "maxItems": MAX_NETWORK_RULES, "items": rule() })),
        ("listDenials", "follow", json!({ "default": false })),
        ("CreateLink", "ttlMs", range(LINK_TTL_MS)),
        ("findPort", "style", json!({ "enum": ["gateway", "publish"] })),
    ]
}

/// A host with an optional port, in every form that a response uses. Requests accept other scripts too.
fn rule() -> Value {
    let label = "[A-Za-z0-9_-]{1,63}";
    // Excludes anything that could be a number.
    let last = "(?!0[Xx])[A-Za-z0-9_-]{0,31}[A-Za-z_-][A-Za-z0-9_-]{0,31}";
    let name = format!(r"(?![A-Za-z0-9._-]{{254}})(?:{label}\.){{0,126}}{last}\.?");
    let byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    let v4 = format!(r"{byte}(?:\.{byte}){{3}}");
    let v6 = ipv6(&v4);
    let port =
        "(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?";
    json!({
        "type": "string",
        "maxLength": MAX_NETWORK_RULE_BYTES,
        "pattern": format!(r"^(?:(?:\*|(?:\*\.)?{name}|{v4}|\[{v6}\]){port}|{v6})$"),
    })
}

/// IPv6 address (RFC 4291, section 2.2), with an embedded IPv4 address only where Rust writes one.
fn ipv6(v4: &str) -> String {
    let group = "[0-9A-Fa-f]{1,4}";
    let mut forms = vec![format!("(?:{group}:){{7}}{group}"), format!("::[Ff]{{4}}:{v4}")];
    // `before` groups precede the gap. The rest leaves room for at least one group of zeros.
    for before in 0..8 {
        let head = if before == 0 { ":".to_owned() } else { format!("(?:{group}:){{{before}}}") };
        let tail = match 7 - before {
            0 => ":".to_owned(),
            room => format!("(?:(?::{group}){{1,{room}}}|:)"),
        };
        forms.push(format!("{head}{tail}"));
    }
    format!("(?:{})", forms.join("|"))
}

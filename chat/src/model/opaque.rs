//! Data that a provider must get back unchanged, labeled with that provider.
//!
//! A conversation may continue with another model. Servers reject foreign signatures and unknown fields.

use serde_json::{Value, json};

/// Labels data with its server.
pub(super) fn seal(host: &str, content: Value) -> Value {
    json!({ "host": host, "content": content })
}

/// Returns the data if it belongs to this server.
pub(super) fn open<'a>(host: &str, sealed: Option<&'a Value>) -> Option<&'a Value> {
    let sealed = sealed?;
    (sealed.get("host")? == host).then(|| sealed.get("content"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_data_is_returned_only_to_its_own_server() {
        let sealed = seal("one.example", json!({"signature": "x"}));
        assert_eq!(open("one.example", Some(&sealed)), Some(&json!({"signature": "x"})));
        assert_eq!(open("two.example", Some(&sealed)), None);
        assert_eq!(open("one.example", Some(&json!({"signature": "x"}))), None);
        assert_eq!(open("one.example", None), None);
    }
}

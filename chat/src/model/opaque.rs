//! What a provider must get back unchanged, with a note of whose it is.
//!
//! A conversation may go on with another model: servers refuse signatures that are not theirs, and fields that they do not know.

use serde_json::{Value, json};

/// Something of a server's.
pub(super) fn seal(host: &str, content: Value) -> Value {
    json!({ "host": host, "content": content })
}

/// What was sealed, for the server that it is of.
pub(super) fn open<'a>(host: &str, sealed: Option<&'a Value>) -> Option<&'a Value> {
    let sealed = sealed?;
    (sealed.get("host")? == host).then(|| sealed.get("content"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_server_gets_it_back() {
        let sealed = seal("one.example", json!({"signature": "x"}));
        assert_eq!(open("one.example", Some(&sealed)), Some(&json!({"signature": "x"})));
        assert_eq!(open("two.example", Some(&sealed)), None);
        assert_eq!(open("one.example", Some(&json!({"signature": "x"}))), None);
        assert_eq!(open("one.example", None), None);
    }
}

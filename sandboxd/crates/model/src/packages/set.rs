//! The packages that a request asks for together.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{PackageSettings, Requirement};
use crate::{FieldError, limits};

/// Beginning of the session keys of sandboxes that resolve sets. No caller's session key has it.
pub const SANDBOX_KEYS: &str = "package-set:";

/// Part of every key. Another layout of the files must have another one.
const LAYOUT: &str = "sandboxd packages 1";

/// Requirements that are resolved together, without an order. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PackageSet(Vec<Requirement>);

/// Identifies what a set was resolved to: the requirements, the image with its Python, and the index. 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PackageSetKey(String);

impl PackageSet {
    /// Reads the requirements of a request. `None` if it has none.
    pub fn parse(texts: &[String]) -> Result<Option<Self>, FieldError> {
        if texts.len() > limits::MAX_PACKAGES {
            let problem = format!("must have at most {} entries", limits::MAX_PACKAGES);
            return Err(FieldError::new("packages", problem));
        }
        let mut set = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            let fault = |problem| FieldError::new(format!("packages[{at}]"), problem);
            set.push(Requirement::parse(text).map_err(fault)?);
        }
        set.sort();
        set.dedup();
        Ok((!set.is_empty()).then_some(Self(set)))
    }

    /// The requirements, sorted.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    /// The key of the set. `image` is the engine's id of the image.
    pub fn key(&self, image: &str, settings: &PackageSettings) -> PackageSetKey {
        let digest = Sha256::digest(format!("{LAYOUT}\n{image}\n{}\n{self}", settings.index));
        PackageSetKey(digest[..16].iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// One requirement per line.
impl fmt::Display for PackageSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|requirement| writeln!(f, "{requirement}"))
    }
}

impl PackageSetKey {
    /// Number of its digits.
    pub const DIGITS: usize = 32;

    /// Reads a key.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        (text.len() == Self::DIGITS && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PackageSetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::HttpsUrl;

    fn set(texts: &[&str]) -> PackageSet {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        PackageSet::parse(&texts).unwrap().unwrap()
    }

    #[test]
    fn the_same_set_has_the_same_key() {
        let settings = |index: &str| PackageSettings {
            kept_bytes: 0,
            max_fetched_bytes: 0,
            index: HttpsUrl::parse(index).unwrap(),
            credentials: crate::repository::GitTokens::default(),
        };
        let (here, there) = (settings("https://a.example/simple"), settings("https://b.example/simple"));
        let key = set(&["NumPy ==2.*", "pandas"]).key("sha256:1", &here);
        assert_eq!(PackageSetKey::parse(key.as_str()), Some(key.clone()));
        assert_eq!(set(&["pandas", "numpy==2.*", "pandas"]).key("sha256:1", &here), key);
        for other in [
            set(&["pandas", "numpy"]).key("sha256:1", &here),
            set(&["pandas", "numpy==2.*"]).key("sha256:2", &here),
            set(&["pandas", "numpy==2.*"]).key("sha256:1", &there),
        ] {
            assert_ne!(other, key);
        }
    }

    #[test]
    fn a_field_error_names_the_entry() {
        let parse = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            PackageSet::parse(&texts)
        };
        assert_eq!(parse(&[]), Ok(None));
        assert_eq!(parse(&["a", "-b"]).unwrap_err().field, "packages[1]");
        assert_eq!(parse(&["a"; limits::MAX_PACKAGES + 1]).unwrap_err().field, "packages");
        assert_eq!(PackageSetKey::parse("../x"), None);
    }
}

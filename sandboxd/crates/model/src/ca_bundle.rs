//! Certificates that sandboxes trust.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Certificates in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct CaBundle {
    path: PathBuf,
    pem: Arc<[u8]>,
}

impl CaBundle {
    /// Checks the contents of the file at `path`. The problem is the end of a sentence.
    pub fn new(path: &Path, pem: String) -> Result<Self, String> {
        check(&pem)?;
        Ok(Self { path: path.to_owned(), pem: pem.into_bytes().into() })
    }

    /// The certificates.
    pub fn pem(&self) -> &[u8] {
        &self.pem
    }
}

impl fmt::Debug for CaBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CaBundle").field(&self.path).finish()
    }
}

/// Requires at least one certificate, and that each is PEM.
fn check(pem: &str) -> Result<(), String> {
    let mut blocks = pem.split(BEGIN).skip(1).enumerate().peekable();
    if blocks.peek().is_none() {
        return Err("must have a certificate in PEM".into());
    }
    for (at, block) in blocks {
        let body = block.split_once(END).map(|(body, _)| body.split_whitespace().collect::<String>());
        let der = body.and_then(|body| BASE64_STANDARD.decode(body).ok());
        // A certificate is a sequence in ASN.1.
        if der.is_none_or(|der| der.first() != Some(&0x30)) {
            return Err(format!("is not PEM at certificate {}", at + 1));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_contains_only_certificates() {
        let good = format!("# words\n{BEGIN}\nMAMC\nAQA=\n{END}\n");
        assert_eq!(check(&good), Ok(()));
        assert_eq!(check(&good.repeat(3)), Ok(()));
        for bad in [
            "",
            "hello",
            &format!("{BEGIN}\nMAMCAQA=\n"),
            &format!("{BEGIN}\n!\n{END}"),
            &format!("{BEGIN}{END}"),
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        let second = check(&format!("{good}{BEGIN}\nAAAA\n{END}\n"));
        assert_eq!(second, Err("is not PEM at certificate 2".into()));
    }
}

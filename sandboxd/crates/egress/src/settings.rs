//! What the operator sets for all sandboxes.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ipnet::IpNet;

use super::Upstreams;
use sandboxd_model::limits;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Ranges that sandboxes may reach although they are not public.
    pub allow_cidr: Vec<IpNet>,
    /// Addresses of names, instead of what the resolver says.
    pub hosts: HashMap<String, Vec<IpAddr>>,
    /// Proxies that connections are made through.
    pub upstreams: Upstreams,
    /// What one sandbox may move in both directions while it runs, in bytes.
    pub max_bytes: Option<u64>,
    /// What sandboxes trust.
    pub ca_bundle: Option<CaBundle>,
}

/// Certificates in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct CaBundle {
    path: PathBuf,
    pem: Arc<[u8]>,
}

impl CaBundle {
    /// Reads a bundle; the problem otherwise, as the end of a sentence.
    pub fn read(path: &Path) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > limits::MAX_CA_BUNDLE_BYTES {
            return Err(format!("must be at most {} bytes long", limits::MAX_CA_BUNDLE_BYTES));
        }
        let pem = std::fs::read_to_string(path).map_err(unreadable)?;
        check(&pem)?;
        Ok(Self { path: path.to_owned(), pem: pem.into_bytes().into() })
    }

    /// What is in it.
    pub fn pem(&self) -> &[u8] {
        &self.pem
    }
}

impl fmt::Debug for CaBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CaBundle").field(&self.path).finish()
    }
}

/// At least one certificate, and each as PEM has it.
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
    fn a_bundle_is_certificates() {
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

    #[test]
    fn what_cannot_be_read_is_told() {
        assert!(CaBundle::read(Path::new("/nowhere/ca.pem")).unwrap_err().starts_with("cannot be read"));
        assert!(CaBundle::read(Path::new("/dev")).is_err());
    }
}

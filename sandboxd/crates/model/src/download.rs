//! Links that download one file, and the name under which a browser saves it.
//!
//! Nothing about a link is stored. Its token says which file it is for and how long it is valid, and is authenticated
//! with the instance key. The token is not encrypted, because a visitor with the token can read the file in any case.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use sandbox_api::SandboxId;
use subtle::ConstantTimeEq;

use super::Instance;
use super::files::FilePath;

/// Path of every link. The token follows.
const PATH_PREFIX: &str = "/download/";

/// Bytes of a token's authentication, the first of the MAC: 160 bits, as many as a preview's token has.
const MAC_BYTES: usize = 20;

/// Bytes of a token's expiry.
const EXPIRY_BYTES: usize = 8;

/// Name of a file whose path has none.
const UNNAMED: &str = "download";

/// Characters that are not encoded in a path (RFC 3986 section 2.3).
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Characters that are not encoded in `filename*` (RFC 8187 section 3.2.1).
const IN_PARAMETER: &AsciiSet = &IN_PATH
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'^')
    .remove(b'`')
    .remove(b'|');

/// What a link allows: reading one file until a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadGrant {
    /// Sandbox of the file.
    pub sandbox: SandboxId,
    /// Path of the file, as in the request for the link. Resolved in the sandbox at each download.
    pub path: FilePath,
    /// Milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

impl DownloadGrant {
    /// The token of a link: letters, digits, `-` and `_`. It is the only credential and must not be logged.
    pub fn seal(&self, instance: &Instance) -> String {
        let claims = self.claims();
        let token = [&instance.download_mac(&claims)[..MAC_BYTES], &claims].concat();
        BASE64_URL_SAFE_NO_PAD.encode(token)
    }

    /// Reads a token. `None` if this instance has not made it. An expired one is read too.
    pub fn open(token: &str, instance: &Instance) -> Option<Self> {
        let token = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
        let (mac, claims) = token.split_at_checked(MAC_BYTES)?;
        let is_authentic: bool = instance.download_mac(claims)[..MAC_BYTES].ct_eq(mac).into();
        if is_authentic { Self::of_claims(claims) } else { None }
    }

    /// The expiry, the length of the id, the id, and the path.
    fn claims(&self) -> Vec<u8> {
        let id = self.sandbox.as_str().as_bytes();
        // Ids are shorter than 256 bytes.
        [&self.expires_at_ms.to_be_bytes()[..], &[id.len() as u8], id, &self.path.0].concat()
    }

    fn of_claims(claims: &[u8]) -> Option<Self> {
        let (expiry, rest) = claims.split_first_chunk::<EXPIRY_BYTES>()?;
        let (id_bytes, rest) = rest.split_first()?;
        let (id, path) = rest.split_at_checked(usize::from(*id_bytes))?;
        Some(Self {
            sandbox: std::str::from_utf8(id).ok()?.parse().ok()?,
            path: FilePath(Bytes::copy_from_slice(path)),
            expires_at_ms: i64::from_be_bytes(*expiry),
        })
    }
}

/// A new link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadLink {
    /// What it allows.
    pub grant: DownloadGrant,
    /// Its token.
    pub token: String,
    /// Size of the file when the link was created.
    pub size_bytes: u64,
}

/// Path of a link at its origin. It ends with the file's name, under which programs such as curl save the file.
pub fn link_path(link: &DownloadLink) -> String {
    let name = file_name(&link.grant.path);
    format!("{PATH_PREFIX}{}/{}", link.token, utf8_percent_encode(&name, IN_PATH))
}

/// Token in the path of a request. `None` if the path is not one of a link.
pub fn token_of(path: &str) -> Option<&str> {
    path.strip_prefix(PATH_PREFIX)?.split('/').next()
}

/// Name under which a browser saves a file: the last part of its path. Characters that change how a name is shown, or
/// that some system takes for a separator, are replaced.
pub fn file_name(path: &FilePath) -> String {
    let name = path.0.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty()).unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    let name: String = name.chars().map(|found| if is_misleading(found) { '_' } else { found }).collect();
    if matches!(name.as_str(), "" | "." | "..") { UNNAMED.to_owned() } else { name }
}

/// Control characters, line separators, marks that reverse the direction of text (`fdp.exe` for `exe.pdf`), and `\`.
fn is_misleading(found: char) -> bool {
    let is_separator = matches!(found, '\\' | '\u{2028}' | '\u{2029}');
    let is_mark = matches!(found, '\u{61c}' | '\u{200e}' | '\u{200f}');
    let is_embedding = matches!(found, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    found.is_control() || is_separator || is_mark || is_embedding
}

/// Value of `content-disposition` for a name (RFC 6266): in ASCII, and in UTF-8 if that differs.
pub fn disposition(name: &str) -> String {
    let is_plain =
        |found: char| (found.is_ascii_graphic() || found == ' ') && !matches!(found, '"' | '\\' | '%');
    let ascii: String = name.chars().map(|found| if is_plain(found) { found } else { '_' }).collect();
    if ascii == name {
        return format!("attachment; filename=\"{ascii}\"");
    }
    let encoded = percent_encode(name.as_bytes(), IN_PARAMETER);
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grant(path: &[u8]) -> DownloadGrant {
        DownloadGrant {
            sandbox: "sbx_0123456789abcdefAB".parse().unwrap(),
            path: FilePath(Bytes::copy_from_slice(path)),
            expires_at_ms: 1_800_000_000_000,
        }
    }

    #[test]
    fn a_token_is_valid_only_unchanged_and_at_its_instance() {
        let (one, other) = (Instance::new([1; 32]), Instance::new([2; 32]));
        for path in [&b"out/report.pdf"[..], b"a\xff\n", b"/", &[b'x'; 4095]] {
            let token = grant(path).seal(&one);
            assert_eq!(DownloadGrant::open(&token, &one), Some(grant(path)));
            assert_eq!(DownloadGrant::open(&token, &other), None);
            let preview_key = one.preview_token(&"lnk_0123456789abcdefAB".parse().unwrap());
            for forged in
                ["", "A", preview_key.expose(), &token[1..], &format!("{token}A"), &format!("{token}=")]
            {
                assert_eq!(DownloadGrant::open(forged, &one), None, "{forged}");
            }
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(&token).unwrap();
            for at in 0..bytes.len().min(80) {
                let mut forged = bytes.clone();
                forged[at] ^= 1;
                assert_eq!(DownloadGrant::open(&BASE64_URL_SAFE_NO_PAD.encode(forged), &one), None, "{at}");
            }
        }
    }

    #[test]
    fn claims_that_are_cut_off_are_rejected() {
        let claims = grant(b"").claims();
        assert_eq!(DownloadGrant::of_claims(&claims), Some(grant(b"")));
        for end in 0..claims.len() {
            assert_eq!(DownloadGrant::of_claims(&claims[..end]), None, "{end}");
        }
    }

    #[test]
    fn a_name_shows_what_it_is() {
        let name = |path: &[u8]| file_name(&FilePath(Bytes::copy_from_slice(path)));
        assert_eq!(name(b"out/report 1.pdf"), "report 1.pdf");
        assert_eq!(name("/vercel/sandbox/über\"x\".txt".as_bytes()), "über\"x\".txt");
        assert_eq!(name(b"a\nb\r\x00\x7f"), "a_b___");
        assert_eq!(name("photo\u{202e}gpj.exe".as_bytes()), "photo_gpj.exe");
        assert_eq!(name(b"..\\x"), ".._x");
        assert_eq!(name(b"a\xff"), "a\u{fffd}");
        assert_eq!(name(b"dir/"), "dir");
        for none in [&b""[..], b"/", b".", b"a/.."] {
            assert_eq!(name(none), "download");
        }
    }

    #[test]
    fn a_disposition_is_ascii() {
        assert_eq!(disposition("report 1.pdf"), "attachment; filename=\"report 1.pdf\"");
        assert_eq!(
            disposition("€ \"rates\" 5%.txt"),
            "attachment; filename=\"_ _rates_ 5_.txt\"; filename*=UTF-8''%E2%82%AC%20%22rates%22%205%25.txt"
        );
    }

    #[test]
    fn a_link_has_the_name_at_its_end() {
        let link =
            |path: &str| DownloadLink { grant: grant(path.as_bytes()), token: "t-_".into(), size_bytes: 0 };
        assert_eq!(link_path(&link("a/b c?.pdf")), "/download/t-_/b%20c%3F.pdf");
        assert_eq!(token_of("/download/t-_/b%20c%3F.pdf"), Some("t-_"));
        assert_eq!(token_of("/download/t"), Some("t"));
        for other in ["/", "/downloads/t", "/x/download/t", "download/t"] {
            assert_eq!(token_of(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_name_breaks_the_header_or_the_path(path in proptest::collection::vec(any::<u8>(), 0..80)) {
            let path = FilePath(path.into());
            let value = disposition(&file_name(&path));
            prop_assert!(http::HeaderValue::try_from(&value).is_ok());
            prop_assert!(value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
            prop_assert_eq!(value.matches('"').count(), 2);
            let grant = DownloadGrant { path, ..grant(b"") };
            let link = DownloadLink { grant, token: "t".into(), size_bytes: 0 };
            prop_assert_eq!(link_path(&link).matches('/').count(), 3);
        }
    }
}

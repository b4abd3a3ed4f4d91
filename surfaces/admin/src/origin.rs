//! Whether a request comes from a page of this daemon.
//!
//! The daemon has compared `Origin` with `Host` before. Browsers also say how the request's page is related to it (Fetch
//! Metadata, W3C). Previews and published ports on the same host are of the same site, so they get the cookie too, but they
//! are of another origin.

use http::header::ORIGIN;
use http::{HeaderMap, HeaderName};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The page of another origin has sent the request.
#[derive(Debug)]
pub(crate) struct OtherOrigin;

/// Checks a request that only reads. Another page may link to it, but not load it into itself.
pub(crate) fn check_read(headers: &HeaderMap) -> Result<(), OtherOrigin> {
    let is = |name, expected: &str| headers.get(name).is_some_and(|value| value == expected);
    let is_foreign = is(SITE, "cross-site") || is(SITE, "same-site");
    let is_opened = is(MODE, "navigate") && is(DEST, "document");
    if is_foreign && !is_opened { Err(OtherOrigin) } else { Ok(()) }
}

/// Checks a request that changes something. A browser always says where such a request comes from.
pub(crate) fn check_change(headers: &HeaderMap) -> Result<(), OtherOrigin> {
    let is_own = match headers.get(SITE) {
        Some(site) => site == "same-origin",
        // Browsers send it to trustworthy addresses only. The daemon has compared the origin.
        None => headers.contains_key(ORIGIN),
    };
    if is_own { Ok(()) } else { Err(OtherOrigin) }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(of: &[(HeaderName, &'static str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn another_origin_may_open_a_page_and_nothing_else() {
        let navigate = [(MODE, "navigate"), (DEST, "document")];
        for site in ["cross-site", "same-site"] {
            assert!(check_read(&headers(&[(SITE, site)])).is_err(), "{site}");
            let frame = headers(&[(SITE, site), (MODE, "navigate"), (DEST, "iframe")]);
            assert!(check_read(&frame).is_err(), "{site}");
            let opened = [&[(SITE, site)][..], &navigate].concat();
            assert!(check_read(&headers(&opened)).is_ok(), "{site}");
            assert!(check_change(&headers(&opened)).is_err(), "{site}");
        }
        for site in ["none", "same-origin"] {
            assert!(check_read(&headers(&[(SITE, site)])).is_ok(), "{site}");
        }
        assert!(check_read(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn a_change_says_where_it_comes_from() {
        assert!(check_change(&HeaderMap::new()).is_err());
        assert!(check_change(&headers(&[(ORIGIN, "http://localhost:8080")])).is_ok());
        assert!(check_change(&headers(&[(SITE, "same-origin")])).is_ok());
        assert!(check_change(&headers(&[(SITE, "none")])).is_err());
        assert!(check_change(&headers(&[(ORIGIN, "http://localhost:8080"), (SITE, "same-site")])).is_err());
    }
}

//! Isolates cookies of previews that share a host name.
//!
//! Cookies ignore ports (RFC 6265 section 8.5). A browser sends the cookies of the chat app, or of another preview with the
//! same host name, to every port. Therefore a preview with its own port sees only cookies that it set itself. Each gets a
//! prefix of this preview on its way to the browser, and loses it on its way back. The cookie with the link's token never
//! reaches the sandbox. A preview with its own host name needs none of this.

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};
use sandbox_api::LinkId;

use crate::model::preview::PreviewToken;

/// Cookies of one preview with its own port.
#[derive(Debug, Clone)]
pub(super) struct Jar {
    key: String,
    prefix: String,
}

impl Jar {
    pub(super) fn of(link: &LinkId) -> Self {
        Self { key: format!("{link}_key"), prefix: format!("{link}-") }
    }

    /// Tokens that a visitor sends for this preview. There is more than one only if another page planted them.
    pub(super) fn tokens(&self, headers: &HeaderMap) -> Vec<PreviewToken> {
        cookies(headers)
            .filter(|(name, _)| *name == self.key.as_bytes())
            .filter_map(|(_, value)| PreviewToken::parse(std::str::from_utf8(value).ok()?))
            .collect()
    }

    /// Cookie with the link's token, for a browser that has followed the link.
    pub(super) fn key_cookie(&self, token: &PreviewToken, is_https: bool) -> Option<HeaderValue> {
        let secure = if is_https { "; Secure" } else { "" };
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Lax{secure}", self.key, token.expose());
        HeaderValue::try_from(cookie).ok()
    }

    /// Keeps only the cookies that the sandbox set, with their original names.
    pub(super) fn to_sandbox(&self, headers: &mut HeaderMap) {
        let own: Vec<Vec<u8>> = cookies(headers)
            .filter_map(|(name, value)| {
                Some([name.strip_prefix(self.prefix.as_bytes())?, b"=", value].concat())
            })
            .collect();
        headers.remove(COOKIE);
        if let Ok(own) = HeaderValue::try_from(own.join(&b"; "[..]))
            && !own.is_empty()
        {
            headers.insert(COOKIE, own);
        }
    }

    /// Adds the preview's prefix to the names of cookies that the sandbox sets.
    pub(super) fn to_visitor(&self, headers: &mut HeaderMap) {
        let set: Vec<_> = headers.get_all(SET_COOKIE).iter().cloned().collect();
        headers.remove(SET_COOKIE);
        for cookie in set {
            let named = [self.prefix.as_bytes(), cookie.as_bytes().trim_ascii_start()].concat();
            headers.extend(HeaderValue::try_from(named).ok().map(|cookie| (SET_COOKIE, cookie)));
        }
    }
}

/// Name and value of each cookie. They are bytes, because other pages of the same host name may set any bytes.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    let cookies =
        headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    cookies.filter_map(|cookie| {
        let cookie = cookie.trim_ascii();
        let (name, value) = cookie.split_at_checked(cookie.iter().position(|byte| *byte == b'=')?)?;
        Some((name, &value[1..]))
    })
}

/// Removes the `Domain` attribute of cookies, because the visitor knows the preview by another name.
pub(super) fn remove_domains(headers: &mut HeaderMap) {
    let set: Vec<_> = headers.get_all(SET_COOKIE).iter().cloned().collect();
    headers.remove(SET_COOKIE);
    for cookie in set {
        // The first part is the cookie itself, even if its name is `domain`.
        let kept: Vec<&[u8]> = cookie
            .as_bytes()
            .split(|byte| *byte == b';')
            .enumerate()
            .filter_map(|(at, part)| (at == 0 || !is_domain(part)).then_some(part))
            .collect();
        headers.extend(HeaderValue::try_from(kept.join(&b';')).ok().map(|cookie| (SET_COOKIE, cookie)));
    }
}

/// Whether browsers read this attribute as the domain. They allow whitespace on both sides of the name (RFC 6265, section
/// 5.2).
fn is_domain(part: &[u8]) -> bool {
    let name = part.split(|byte| *byte == b'=').next().unwrap_or(part);
    name.trim_ascii().eq_ignore_ascii_case(b"domain")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar() -> Jar {
        Jar::of(&"lnk_0123456789abcdef".parse().unwrap())
    }

    fn with(name: http::HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn values(headers: &HeaderMap, name: http::HeaderName) -> Vec<&str> {
        headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    }

    #[test]
    fn a_sandbox_sees_only_the_cookies_it_set() {
        let mut headers = with(
            COOKIE,
            &[
                "token=of-the-chat-app; lnk_0123456789abcdef_key=secret; lnk_0123456789abcdef-a=1",
                "lnk_other-b=2; lnk_0123456789abcdef-c=3=4",
            ],
        );
        jar().to_sandbox(&mut headers);
        assert_eq!(values(&headers, COOKIE), ["a=1; c=3=4"]);
        let mut strange = with(COOKIE, &["token=of-the-chat-app"]);
        jar().to_sandbox(&mut strange);
        assert!(strange.is_empty());
    }

    #[test]
    fn a_cookie_that_a_sandbox_sets_gets_the_prefix() {
        let mut headers = with(SET_COOKIE, &["a=1; Path=/", " b=2"]);
        jar().to_visitor(&mut headers);
        let wanted = ["lnk_0123456789abcdef-a=1; Path=/", "lnk_0123456789abcdef-b=2"];
        assert_eq!(values(&headers, SET_COOKIE), wanted);
    }

    #[test]
    fn the_token_is_read_from_its_cookie() {
        let token = PreviewToken::new([3; 20]);
        let given = jar().key_cookie(&token, false).unwrap();
        let text = given.to_str().unwrap();
        assert!(text.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{text}");
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_str(text.split(';').next().unwrap()).unwrap());
        assert_eq!(jar().tokens(&headers), [token]);
    }

    #[test]
    fn domain_attributes_are_removed() {
        let set = ["a=1; Domain=localhost; Path=/", "b=2", "c=3;\tdomain =example.com", "domain=4; domain"];
        let mut headers = with(SET_COOKIE, &set);
        remove_domains(&mut headers);
        assert_eq!(values(&headers, SET_COOKIE), ["a=1; Path=/", "b=2", "c=3", "domain=4"]);
    }

    #[test]
    fn another_pages_cookie_with_any_bytes_is_ignored() {
        let token = PreviewToken::new([3; 20]);
        let key = format!(
            "name=\u{fc}; lnk_0123456789abcdef_key={}; lnk_0123456789abcdef-a=\u{e9}",
            token.expose()
        );
        let mut headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_bytes(key.as_bytes()).unwrap())]);
        headers.append(COOKIE, HeaderValue::from_static("lnk_0123456789abcdef-b=2"));
        assert_eq!(jar().tokens(&headers), [token]);
        jar().to_sandbox(&mut headers);
        assert_eq!(headers[COOKIE].as_bytes(), "a=\u{e9}; b=2".as_bytes());
    }
}

//! Cookies where previews share a host name.
//!
//! Cookies know no ports (RFC 6265 section 8.5): what a browser has from the chat app, or from another preview under
//! the same name, it sends to every port. So behind a link's own port a preview sees only cookies that it set itself:
//! each gets a name of this preview's on its way out, and loses it on its way in. The cookie that opens the link is
//! never shown to the sandbox. Behind a host name of its own a preview's cookies are its own already.

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};
use sandbox_api::LinkId;

use crate::model::preview::PreviewToken;

/// The cookies of one preview behind a port.
#[derive(Debug, Clone)]
pub(super) struct Jar {
    key: String,
    prefix: String,
}

impl Jar {
    pub(super) fn of(link: &LinkId) -> Self {
        Self { key: format!("{link}_key"), prefix: format!("{link}-") }
    }

    /// The tokens that a visitor brings for this preview. More than one only where somebody planted them.
    pub(super) fn tokens(&self, headers: &HeaderMap) -> Vec<PreviewToken> {
        cookies(headers)
            .filter(|(name, _)| *name == self.key.as_bytes())
            .filter_map(|(_, value)| PreviewToken::parse(std::str::from_utf8(value).ok()?))
            .collect()
    }

    /// The cookie that opens the preview for whoever has followed the link once.
    pub(super) fn key(&self, token: &PreviewToken, is_https: bool) -> Option<HeaderValue> {
        let secure = if is_https { "; Secure" } else { "" };
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Lax{secure}", self.key, token.expose());
        HeaderValue::try_from(cookie).ok()
    }

    /// Leaves the sandbox the cookies that it set, under the names it gave them.
    pub(super) fn let_in(&self, headers: &mut HeaderMap) {
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

    /// Gives cookies that the sandbox sets names of this preview's.
    pub(super) fn let_out(&self, headers: &mut HeaderMap) {
        let set: Vec<_> = headers.get_all(SET_COOKIE).iter().cloned().collect();
        headers.remove(SET_COOKIE);
        for cookie in set {
            let named = [self.prefix.as_bytes(), cookie.as_bytes().trim_ascii_start()].concat();
            headers.extend(HeaderValue::try_from(named).ok().map(|cookie| (SET_COOKIE, cookie)));
        }
    }
}

/// The name and value of each cookie. They are bytes: other pages of the same host name may put anything into theirs.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    let cookies =
        headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    cookies.filter_map(|cookie| {
        let cookie = cookie.trim_ascii();
        let (name, value) = cookie.split_at_checked(cookie.iter().position(|byte| *byte == b'=')?)?;
        Some((name, &value[1..]))
    })
}

/// Removes what ties a cookie to a name that the visitor does not know the preview by.
pub(super) fn untie(headers: &mut HeaderMap) {
    let set: Vec<_> = headers.get_all(SET_COOKIE).iter().cloned().collect();
    headers.remove(SET_COOKIE);
    for cookie in set {
        // What comes first is the cookie itself, whatever its name.
        let kept: Vec<&[u8]> = cookie
            .as_bytes()
            .split(|byte| *byte == b';')
            .enumerate()
            .filter_map(|(at, part)| (at == 0 || !is_domain(part)).then_some(part))
            .collect();
        headers.extend(HeaderValue::try_from(kept.join(&b';')).ok().map(|cookie| (SET_COOKIE, cookie)));
    }
}

/// Whether it is an attribute that browsers read as the domain: they allow blanks on both sides of the name (RFC 6265,
/// section 5.2).
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
        jar().let_in(&mut headers);
        assert_eq!(values(&headers, COOKIE), ["a=1; c=3=4"]);
        let mut strange = with(COOKIE, &["token=of-the-chat-app"]);
        jar().let_in(&mut strange);
        assert!(strange.is_empty());
    }

    #[test]
    fn what_a_sandbox_sets_gets_the_previews_name() {
        let mut headers = with(SET_COOKIE, &["a=1; Path=/", " b=2"]);
        jar().let_out(&mut headers);
        let wanted = ["lnk_0123456789abcdef-a=1; Path=/", "lnk_0123456789abcdef-b=2"];
        assert_eq!(values(&headers, SET_COOKIE), wanted);
    }

    #[test]
    fn the_key_is_read_as_it_was_given() {
        let token = PreviewToken::new([3; 20]);
        let given = jar().key(&token, false).unwrap();
        let text = given.to_str().unwrap();
        assert!(text.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{text}");
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_str(text.split(';').next().unwrap()).unwrap());
        assert_eq!(jar().tokens(&headers), [token]);
    }

    #[test]
    fn a_cookie_is_of_no_domain() {
        let set = ["a=1; Domain=localhost; Path=/", "b=2", "c=3;\tdomain =example.com", "domain=4; domain"];
        let mut headers = with(SET_COOKIE, &set);
        untie(&mut headers);
        assert_eq!(values(&headers, SET_COOKIE), ["a=1; Path=/", "b=2", "c=3", "domain=4"]);
    }

    #[test]
    fn another_pages_cookie_of_any_bytes_locks_nobody_out() {
        let token = PreviewToken::new([3; 20]);
        let key = format!(
            "name=\u{fc}; lnk_0123456789abcdef_key={}; lnk_0123456789abcdef-a=\u{e9}",
            token.expose()
        );
        let mut headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_bytes(key.as_bytes()).unwrap())]);
        headers.append(COOKIE, HeaderValue::from_static("lnk_0123456789abcdef-b=2"));
        assert_eq!(jar().tokens(&headers), [token]);
        jar().let_in(&mut headers);
        assert_eq!(headers[COOKIE].as_bytes(), "a=\u{e9}; b=2".as_bytes());
    }
}

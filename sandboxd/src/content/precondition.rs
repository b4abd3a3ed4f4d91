//! Conditional and range headers of a request (RFC 9110 sections 13 and 14).

use http::header::{IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue};

use crate::model::FieldError;
use crate::model::files::ByteRange;

/// Conditions of a write: the etag that the file must have, and whether it must not exist.
pub(crate) fn of_write(headers: &HeaderMap) -> Result<(Option<String>, bool), FieldError> {
    let if_match = if_match(headers)?;
    match one(headers, "if-none-match", IF_NONE_MATCH.as_str())? {
        None => Ok((if_match, false)),
        Some("*") => Ok((if_match, true)),
        Some(_) => Err(FieldError::new("if-none-match", "can only be `*` in a write")),
    }
}

/// Etag that the file must have, or `*`.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<String>, FieldError> {
    match one(headers, "if-match", IF_MATCH.as_str())? {
        None => Ok(None),
        Some("*") => Ok(Some("*".to_owned())),
        // A weak etag never matches (section 8.8.3.2), so it is passed on and fails there.
        Some(weak) if weak.strip_prefix("W/").is_some_and(is_quoted) => Ok(Some(weak.to_owned())),
        Some(etag) if is_quoted(etag) => Ok(unquoted(etag).map(str::to_owned)),
        Some(_) => Err(FieldError::new("if-match", "must be `*` or one etag in double quotes")),
    }
}

/// Whether `if-match` allows the read. Unlike a write, a read may name several etags.
pub(crate) fn is_match(headers: &HeaderMap, etag: Option<&str>) -> bool {
    if !headers.contains_key(IF_MATCH) {
        return true;
    }
    let lines = headers.get_all(IF_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut wanted = lines.flat_map(|line| line.split(',')).map(str::trim);
    // A weak etag never matches (section 8.8.3.2).
    wanted.any(|wanted| wanted == "*" || (etag.is_some() && unquoted(wanted) == etag))
}

fn one<'a>(headers: &'a HeaderMap, field: &str, name: &str) -> Result<Option<&'a str>, FieldError> {
    let mut lines = headers.get_all(name).iter();
    let Some(value) = lines.next() else {
        return Ok(None);
    };
    // Several lines are one list (section 5.3), and a list is refused.
    if lines.next().is_some() {
        return Err(FieldError::new(field, "must be one header line with `*` or one etag"));
    }
    let text = value.to_str().ok().map(str::trim).filter(|text| !text.is_empty() && !text.contains(','));
    text.map(Some).ok_or_else(|| FieldError::new(field, "must be `*` or one etag"))
}

/// Whether the client's copy is current.
pub(crate) fn is_not_modified(headers: &HeaderMap, etag: Option<&str>) -> bool {
    let Some(etag) = etag else { return false };
    // A list may span several header lines (section 5.3).
    let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = lines.flat_map(|line| line.split(',')).map(str::trim);
    known.any(|known| known == "*" || unquoted(known.strip_prefix("W/").unwrap_or(known)) == Some(etag))
}

/// Whether `if-range` matches the file. A date never matches, because a file may change twice in a second (section
/// 13.1.5).
pub(crate) fn is_range_of(headers: &HeaderMap, etag: Option<&str>) -> bool {
    let Some(condition) = headers.get(IF_RANGE) else { return true };
    etag.and_then(quoted).is_some_and(|etag| etag == *condition)
}

/// The requested range. Several ranges and other units may be ignored (section 14.2).
pub(crate) fn range(headers: &HeaderMap) -> Option<ByteRange> {
    let text = headers.get(RANGE)?.to_str().ok()?;
    let (unit, span) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (from, to) = span.trim().split_once('-')?;
    match (number(from), number(to)) {
        (Some(from), Some(to)) => (from <= to).then_some(ByteRange::Span { from, to: Some(to) }),
        (Some(from), None) => to.is_empty().then_some(ByteRange::Span { from, to: None }),
        (None, Some(last)) => from.is_empty().then_some(ByteRange::Last(last)),
        (None, None) => None,
    }
}

/// Parses digits only: no sign, no space.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Etag in the form of a header.
pub(crate) fn quoted(etag: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("\"{etag}\"")).ok()
}

fn unquoted(etag: &str) -> Option<&str> {
    etag.strip_prefix('"')?.strip_suffix('"')
}

/// Whether a text is an etag in the form of a header, without `W/` (section 8.8.3).
fn is_quoted(etag: &str) -> bool {
    unquoted(etag).is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))])
    }

    #[test]
    fn only_one_range_of_bytes_is_supported() {
        let of = |value| range(&headers("range", value));
        assert_eq!(of("bytes=0-4"), Some(ByteRange::Span { from: 0, to: Some(4) }));
        assert_eq!(of("Bytes=5-"), Some(ByteRange::Span { from: 5, to: None }));
        assert_eq!(of("bytes=-5"), Some(ByteRange::Last(5)));
        let huge = "bytes=99999999999999999999999-";
        assert_eq!(of(huge), Some(ByteRange::Span { from: u64::MAX, to: None }));
        for nonsense in [
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=4-1",
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes=+1-2",
            "bytes=a-b",
        ] {
            assert_eq!(of(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_write_accepts_one_etag() {
        let of = |name, value| of_write(&headers(name, value)).map_err(|fault| fault.field);
        assert_eq!(of("if-match", "\"a-1\""), Ok((Some("a-1".into()), false)));
        assert_eq!(of("if-match", "*"), Ok((Some("*".into()), false)));
        assert_eq!(of("if-match", "W/\"a\""), Ok((Some("W/\"a\"".into()), false)));
        assert_eq!(of("if-none-match", "*"), Ok((None, true)));
        assert_eq!(of("if-match", "\"a\", \"b\""), Err("if-match".into()));
        for malformed in
            ["", "{}", "a", "\"", "\"a", "a\"", "\"a\"b\"", "\"a b\"", "W/a", "w/\"a\"", "\"a\" \"b\""]
        {
            assert_eq!(of("if-match", malformed), Err("if-match".into()), "{malformed}");
        }
        assert_eq!(of("if-none-match", "\"a\""), Err("if-none-match".into()));
        let mut lines = headers("if-match", "\"a\"");
        lines.append(IF_MATCH, HeaderValue::from_static("\"b\""));
        assert_eq!(of_write(&lines).map_err(|fault| fault.field), Err("if-match".into()));
        let mut lines = headers("if-none-match", "*");
        lines.append(IF_NONE_MATCH, HeaderValue::from_static("*"));
        assert_eq!(of_write(&lines).map_err(|fault| fault.field), Err("if-none-match".into()));
    }

    #[test]
    fn a_copy_is_current_if_its_etag_matches() {
        let fresh = |value| is_not_modified(&headers("if-none-match", value), Some("a"));
        assert!(fresh("\"a\"") && fresh("*") && fresh("\"b\", W/\"a\""));
        assert!(!fresh("\"b\"") && !fresh("a"));
        assert!(!is_not_modified(&HeaderMap::new(), Some("a")));
        let mut lines = headers("if-none-match", "\"b\"");
        lines.append(IF_NONE_MATCH, HeaderValue::from_static("\"a\""));
        assert!(is_not_modified(&lines, Some("a")));
    }

    #[test]
    fn a_read_accepts_any_of_its_etags() {
        let holds = |value| is_match(&headers("if-match", value), Some("a"));
        assert!(holds("\"a\"") && holds("*") && holds("\"b\", \"a\""));
        assert!(!holds("\"b\"") && !holds("a") && !holds("W/\"a\"") && !holds(""));
        assert!(is_match(&HeaderMap::new(), Some("a")));
    }

    #[test]
    fn a_range_applies_only_to_its_version_of_the_file() {
        let holds = |value| is_range_of(&headers("if-range", value), Some("a"));
        assert!(holds("\"a\"") && is_range_of(&HeaderMap::new(), Some("a")));
        assert!(!holds("\"b\"") && !holds("W/\"a\"") && !holds("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert!(!is_range_of(&headers("if-range", "\"a\""), None));
    }
}

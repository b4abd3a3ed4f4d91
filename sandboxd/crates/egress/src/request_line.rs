//! Recognizes the first line of a request, in every form that a server accepts.
//!
//! Servers accept different deviations: other white space than a space, no version or another one, white space
//! before the method, a method of any bytes. So a line that only resembles a request counts as one. If it is not
//! exactly HTTP/1.0 or HTTP/1.1, it is malformed and not another protocol. Clients of ssh also begin with such a
//! line, and are recognized by it.

/// The binary header that proxies send before a connection. The text form is a malformed line, like the beginning
/// of HTTP/2.
const PROXY_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Kind of the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstLine {
    /// Not known yet.
    Incomplete,
    /// A request of HTTP/1.
    Http,
    /// Some server accepts it as a request, but it is not HTTP/1.
    Malformed,
    /// Not a request.
    Other,
}

/// Reads the bytes that a client has sent so far.
pub(super) fn read(bytes: &[u8]) -> FirstLine {
    if bytes.starts_with(PROXY_SIGNATURE) {
        return FirstLine::Malformed;
    }
    let lead = count(bytes, |byte| is_blank(byte) || matches!(byte, 0 | b'\n'));
    // Servers ignore empty lines before a request (RFC 9112, section 2.2), and some ignore more.
    let is_clean = bytes[..lead].iter().all(|byte| b"\r\n".contains(byte));
    let rest = &bytes[lead..];
    let (line, is_whole) = match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&rest[..end], true),
        None => (rest, false),
    };
    let (word, behind) = line.split_at(count(line, is_token));
    // Without a version, only a method that is a word makes a request.
    let is_method = word.first().is_some_and(u8::is_ascii_alphabetic)
        && behind.first().is_some_and(|next| is_blank(*next));
    if !is_method && line.iter().any(|byte| byte.is_ascii_control() && !is_blank(*byte)) {
        FirstLine::Other
    } else if !is_whole {
        FirstLine::Incomplete
    } else if is_clean && is_http(line) {
        FirstLine::Http
    } else if has_version(line) || (is_method && behind != b"\r" && !(is_clean && is_ssh(line))) {
        FirstLine::Malformed
    } else {
        FirstLine::Other
    }
}

/// Whether the first line that is not empty is a request for a server that ignores control characters. `None` if
/// the line has not ended and the answer is not known yet.
pub(super) fn is_hidden(bytes: &[u8]) -> Option<bool> {
    let shown: Vec<u8> = bytes.iter().copied().filter(|byte| !is_passed_over(*byte)).collect();
    let lead = count(&shown, |byte| is_blank(byte) || byte == b'\n');
    let rest = &shown[lead..];
    let (line, is_whole) = match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&rest[..end], true),
        None => (rest, false),
    };
    if has_version(line) {
        return Some(true);
    }
    // Without a version, only a line with a target is a request: binary protocols contain lines by chance.
    let behind = &line[count(line, is_token)..];
    let target = &behind[count(behind, is_blank)..];
    let has_target = target.starts_with(b"/") || target.windows(3).any(|part| part == b"://");
    let is_request =
        line.first().is_some_and(u8::is_ascii_alphabetic) && target.len() < behind.len() && has_target;
    is_whole.then_some(is_request)
}

/// Control characters that some server ignores, and at which it does not split a line.
fn is_passed_over(byte: u8) -> bool {
    byte.is_ascii_control() && !is_blank(byte) && byte != b'\n'
}

fn count(bytes: &[u8], is_one: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is_one(**byte)).count()
}

/// Characters at which some server splits a line. The last two are in Latin-1.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c | 0x1c..=0x1f | 0x85 | 0xa0)
}

/// A character of a method (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn has_version(line: &[u8]) -> bool {
    line.windows(5).any(|part| part.eq_ignore_ascii_case(b"http/"))
}

/// A method, a target and a version, with one space between them.
fn is_http(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let parts: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, b"HTTP/1.0" | b"HTTP/1.1"] = parts[..] else { return false };
    let is_method = !method.is_empty() && count(method, is_token) == method.len();
    is_method && !target.is_empty() && target.iter().all(u8::is_ascii_graphic)
}

/// The identification of a client, and a comment (RFC 4253, section 4.2). Without a slash it is not the target of a
/// request.
fn is_ssh(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_known = line.starts_with(b"SSH-2.0-") || line.starts_with(b"SSH-1.99-");
    let spaces = line.iter().filter(|byte| **byte == b' ').count();
    is_known && spaces <= 1 && line.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'/')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_that_only_resembles_a_request_is_malformed() {
        let malformed = [
            &b"GET /a\r\n"[..],
            b"GET /a HTTP/2.0\r\n",
            b"GET /a HTTP/0.9\r\n",
            b"GET /a HTTP/1.2\r\n",
            b"GET /a http/1.1\r\n",
            b"GET\t/a\tHTTP/1.1\r\n",
            b"GET\x0b/a HTTP/1.1\r\n",
            b"GET\xa0/a\xa0HTTP/1.1\r\n",
            b"GET\r/a\rHTTP/1.1\r\n",
            b"GET  /a HTTP/1.1\r\n",
            b"GET /a HTTP/1.1 \r\n",
            b"GET /\xff HTTP/1.1\r\n",
            b"PRI * HTTP/2.0\r\n",
            b"\r\nGET /a\r\n",
            b" GET /a HTTP/1.1\r\n",
            b"\0GET /a HTTP/1.1\r\n",
            b" \r\nGET /a HTTP/1.1\r\n",
            b"1GET /a HTTP/1.2\r\n",
            b"!x /\xff hTTP/1.1\n",
            b"/x /a HTTP/1.1\r\n",
            b"\xe9x /a HTTP/1.1\r\n",
            b"GET/a HTTP/1.1\r\n",
            b"SSH-2.0-x / HTTP/1.2\r\n",
            b"SSH-2.0-x /\r\n",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
            b"\r\n\r\n\0\r\nQUIT\n!",
        ];
        for line in malformed {
            assert_eq!(read(line), FirstLine::Malformed, "{}", line.escape_ascii());
        }
        for line in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"\r\n\r\nget /a HTTP/1.0\n",
            b"M-SEARCH * HTTP/1.1\r\nHost",
            b"1GET /a HTTP/1.1\r\n",
            b"SSH-2.0-x / HTTP/1.1\r\n",
        ] {
            assert_eq!(read(line), FirstLine::Http, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn other_protocols_are_recognized() {
        let other = [
            &b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"[..],
            b"SSH-2.0-Go\r\n\0\0\x04",
            b"PING\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"AMQP\0\0\x09\x01",
            b"0032git-upload-pack /project.git\0host=x\0",
            b"\x10\x0c\0\x04MQTT\x04\x02\0<\0\0",
            // PostgreSQL with and without TLS, LDAP and MongoDB.
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"\0\0\0!\0\x03\0\0user\0",
            b"0\x0c\x02\x01\x01\x60\x07",
            b"0 \x02\x01\x01\x60\x1b",
            b"A\x01\0\0\x01\0\0\0",
            b"\x05\x01\0",
        ];
        for bytes in other {
            assert_eq!(read(bytes), FirstLine::Other, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn control_characters_do_not_hide_a_request() {
        for byte in (0..=0x20).chain([0x7f, 0x85, 0xa0]).filter(|byte| !b"\r\n".contains(byte)) {
            for at in 0..4 {
                let mut line = b"GET /a HTTP/1.1\r\n".to_vec();
                line.insert(at, byte);
                let read = read(&line);
                let is_refused = read == FirstLine::Malformed || is_hidden(&line) == Some(true);
                assert!(is_refused, "{}: {read:?}", line.escape_ascii());
            }
        }
        let hidden = [
            &b"\x01\r\n\x02\r\n\0GET / HTTP/1.1\r\n"[..],
            b"\x01\x02\x03\x04G\x05E\x06T\x07 / H\x08TTP/1.1\r\n",
            b"\x01GET / http/1.1",
            b"\x7fGET http://evil.example/\n",
            b"G\x01ET /a\r\n",
            b"GET\x01 /a\r\n",
        ];
        for line in hidden {
            assert_eq!(is_hidden(line), Some(true), "{}", line.escape_ascii());
        }
        for line in [
            &b"\x01GET /"[..],
            b"",
            b"\x01\r\n",
            b"\0\0\0!\0\x03\0\0user\0",
            b"\x10\x0c\0\x04MQTT\x04\x02\0x",
        ] {
            assert_eq!(is_hidden(line), None, "{}", line.escape_ascii());
        }
        for line in [&b"PING\r\n"[..], b"SSH-2.0-Go\r\n", b"\0\0Auser\0Q\0SELECT 1\n", b"metric.a 1 17\n"] {
            assert_eq!(is_hidden(line), Some(false), "{}", line.escape_ascii());
        }
    }

    proptest! {
        /// However a request is split, no beginning of it counts as another protocol.
        #[test]
        fn no_prefix_of_a_request_is_another_protocol(
            old in "[\r\n \t\0]{0,3}[a-zA-Z][a-zA-Z-]{0,5}[ \t\x0b\x0c\u{1c}]{1,2}[!-~]{1,9}\r?\n",
            odd in "[\r\n \t\0]{0,3}[!-~]{1,6}[ \t]{1,2}[!-~]{1,9}[ \t](HTTP|http)/[0-9]\\.[0-9] ?\r?\n",
        ) {
            for line in [old, odd] {
                let bytes = line.as_bytes();
                for length in 0..bytes.len() {
                    prop_assert!(read(&bytes[..length]) != FirstLine::Other, "{:?}", &line[..length]);
                }
                prop_assert!(matches!(read(bytes), FirstLine::Http | FirstLine::Malformed), "{line:?}");
            }
        }
    }
}

//! The server name in the first message of a TLS client (RFC 8446, sections 4.1.2 and 5.1; RFC 6066, section 3).
//!
//! The message may arrive in several records, and in any pieces. Only the server name is read. A different server
//! name in an encrypted part of the message (ECH) or in HTTP headers is not visible here.

const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME_EXTENSION: u16 = 0;
const HOST_NAME: u8 = 0;

/// Maximum content of a record (RFC 8446, section 5.1).
const MAX_RECORD_BYTES: usize = 1 << 14;

/// Kind of the bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hello {
    /// The beginning of a hello.
    Incomplete,
    /// Not a hello.
    Malformed,
    /// A hello, with or without a server name.
    Complete {
        /// Name of the server.
        name: Option<String>,
        /// Length of the message in bytes, including the headers of its records.
        length: usize,
    },
}

/// Whether the bytes can be the beginning of TLS.
pub(super) fn is_tls(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HANDSHAKE_RECORD)
}

/// Whether the bytes begin with something else that TLS servers accept. That is a record of another type before the
/// first, or a first message in the format of SSL 2, which contains no server name. `None` if more bytes are
/// needed.
pub(super) fn is_like_tls(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [20..=24] | [0x80..=0xff] | [0x80..=0xff, _] | [0x80..=0xff, _, CLIENT_HELLO] => None,
        [20..=24, 3, ..] | [0x80..=0xff, _, CLIENT_HELLO, 0 | 2 | 3, ..] => Some(true),
        _ => Some(false),
    }
}

/// Reads the bytes that a client has sent so far. Bytes after the message are not read, but they must not be in the
/// same record. No client sends such a record, and a server might take the rest for another first message.
pub(super) fn read(bytes: &[u8]) -> Hello {
    let (mut rest, mut message) = (Bytes(bytes), Vec::new());
    loop {
        if rest.0.first().is_some_and(|kind| *kind != HANDSHAKE_RECORD) {
            return Hello::Malformed;
        }
        let (Some(_), Some(length)) = (rest.number(3), rest.number(2)) else { return Hello::Incomplete };
        if length == 0 || length > MAX_RECORD_BYTES {
            return Hello::Malformed;
        }
        let content = rest.take(length);
        message.extend_from_slice(content.unwrap_or(rest.0));
        let mut head = Bytes(&message);
        let (kind, length) = (head.number(1), head.number(3));
        let body = head.0;
        match (kind, length) {
            (Some(kind), _) if kind != usize::from(CLIENT_HELLO) => return Hello::Malformed,
            (_, Some(length)) if body.len() > length => return Hello::Malformed,
            (_, Some(length)) if body.len() == length && content.is_some() => {
                let length = bytes.len() - rest.0.len();
                return server_name(Bytes(body))
                    .map_or(Hello::Malformed, |name| Hello::Complete { name, length });
            }
            _ if content.is_none() => return Hello::Incomplete,
            _ => {}
        }
    }
}

/// `None` if the message is invalid.
fn server_name(mut hello: Bytes<'_>) -> Option<Option<String>> {
    // Version and random.
    hello.take(2 + 32)?;
    for length_bytes in [1, 2, 1] {
        // Session, cipher suites, compressions.
        hello.part(length_bytes)?;
    }
    if hello.0.is_empty() {
        return Some(None);
    }
    let mut extensions = Bytes(hello.part(2)?);
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let content = extensions.part(2)?;
        if kind == usize::from(SERVER_NAME_EXTENSION) {
            // With two names, one reader would take the first and another the last.
            if found.is_some() {
                return None;
            }
            found = Some(only_name(content)?);
        }
    }
    hello.0.is_empty().then_some(found)
}

fn only_name(content: &[u8]) -> Option<String> {
    let mut content = Bytes(content);
    let mut list = Bytes(content.part(2)?);
    if !content.0.is_empty() || list.number(1)? != usize::from(HOST_NAME) {
        return None;
    }
    let name = list.part(2)?;
    list.0.is_empty().then(|| std::str::from_utf8(name).map(str::to_owned).ok()).flatten()
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of up to three bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// A field that is preceded by its length.
    fn part(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let length = self.number(length_bytes)?;
        self.take(length)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_length(length_bytes: usize, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_be_bytes();
        [&length[4 - length_bytes..], content].concat()
    }

    fn name_extension(name: &str) -> Vec<u8> {
        let entry = [&[HOST_NAME][..], &with_length(2, name.as_bytes())].concat();
        [&[0, 0][..], &with_length(2, &with_length(2, &entry))].concat()
    }

    fn handshake(extensions: &[u8]) -> Vec<u8> {
        let body = [&[3, 3][..], &[7; 32], &[0], &with_length(2, &[0x13, 1]), &with_length(1, &[0])].concat();
        let body = [body, with_length(2, extensions)].concat();
        [&[CLIENT_HELLO][..], &with_length(3, &body)].concat()
    }

    fn record(content: &[u8]) -> Vec<u8> {
        [&[HANDSHAKE_RECORD, 3, 1][..], &with_length(2, content)].concat()
    }

    /// The hello of a client that connects to `name`.
    pub(crate) fn hello(name: &str) -> Vec<u8> {
        let other = [0, 43, 0, 3, 2, 3, 4];
        record(&handshake(&[&other[..], &name_extension(name)].concat()))
    }

    fn named(name: &str, bytes: &[u8]) -> Hello {
        Hello::Complete { name: Some(name.into()), length: bytes.len() }
    }

    #[test]
    fn the_name_is_found_however_the_message_is_split() {
        let whole = hello("example.com");
        assert_eq!(read(&whole), named("example.com", &whole));
        let more = [&whole[..], b"\x14\x03\x03\0\x01\x01", b"\x17"].concat();
        assert_eq!(read(&more), named("example.com", &whole), "the bytes after it are not part of it");
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Hello::Incomplete, "{length}");
        }
        let message = handshake(&name_extension("example.com"));
        for at in 1..message.len() {
            let split = [record(&message[..at]), record(&message[at..])].concat();
            assert_eq!(read(&split), named("example.com", &split), "{at}");
        }
        let nameless = record(&handshake(&[]));
        assert_eq!(read(&nameless), Hello::Complete { name: None, length: nameless.len() });
    }

    #[test]
    fn an_ambiguous_message_is_malformed() {
        let twice = [name_extension("a.example"), name_extension("b.example")].concat();
        assert_eq!(read(&record(&handshake(&twice))), Hello::Malformed);
        let entry = |name: &str| [&[HOST_NAME][..], &with_length(2, name.as_bytes())].concat();
        let two_entries = with_length(2, &[entry("a.example"), entry("b.example")].concat());
        let extension = [&[0, 0][..], &with_length(2, &two_entries)].concat();
        assert_eq!(read(&record(&handshake(&extension))), Hello::Malformed);
        for bad in [
            &b"\x15\x03\x01\x00\x02\x01\x00"[..],
            b"\x16\x03\x01\x00\x00",
            b"\x16\x03\x01\xff\xff",
            b"GET / ",
        ] {
            assert_eq!(read(bad), Hello::Malformed, "{bad:?}");
        }
        assert_eq!(read(&record(&[2, 0, 0, 1, 0])), Hello::Malformed, "a server's");
        let message = handshake(&name_extension("a.example"));
        let two = [&message[..], &handshake(&name_extension("b.example"))].concat();
        assert_eq!(read(&record(&two)), Hello::Malformed, "two in one record");
        let across = [record(&message[..9]), record(&two[9..])].concat();
        assert_eq!(read(&across), Hello::Malformed, "the second begins in a record of the first");
        let between =
            [&record(&message[..9])[..], b"\x14\x03\x03\0\x01\x01", &record(&message[9..])].concat();
        assert_eq!(read(&between), Hello::Malformed, "another record between its parts");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..80_usize, with: u8) {
            read(&bytes);
            let mut changed = hello("example.com");
            let at = at % changed.len();
            changed[at] = with;
            read(&changed);
        }
    }
}

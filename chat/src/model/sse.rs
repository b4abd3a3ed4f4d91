//! Parses server-sent events while their bytes arrive.
//!
//! Follows the HTML standard (section 9.2.6). Lines end in LF, CR or both. Invalid UTF-8 is replaced. An event that is
//! cut off is dropped. Ids and retry times are ignored, because an answer cannot be resumed.

use bytes::{Buf, BytesMut};

use super::limits::MAX_EVENT_BYTES;
use super::{Error, Result};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Event {
    /// Empty if the server sends no type.
    pub(super) name: String,
    /// Its lines, joined by LF.
    pub(super) data: String,
}

/// The received bytes, and the event that they have started.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    buffer: BytesMut,
    /// The buffer has no line end before this position.
    searched: usize,
    /// A following LF belongs to the preceding CR.
    is_after_cr: bool,
    is_begun: bool,
    event: Event,
    has_data: bool,
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Result<Option<Event>> {
        while let Some(line) = self.line()? {
            if !line.is_empty() {
                self.take(&line)?;
                continue;
            }
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn line(&mut self) -> Result<Option<BytesMut>> {
        if self.is_after_cr {
            match self.buffer.first() {
                // It may be the first half of the line end.
                None => return Ok(None),
                Some(b'\n') => self.buffer.advance(1),
                Some(_) => {}
            }
            self.is_after_cr = false;
        }
        let end = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]);
        let Some(end) = end.map(|offset| self.searched + offset) else {
            self.searched = self.buffer.len();
            return within(self.buffer.len()).map(|()| None);
        };
        within(end)?;
        self.searched = 0;
        self.is_after_cr = self.buffer[end] == b'\r';
        let mut line = self.buffer.split_to(end);
        self.buffer.advance(1);
        if !std::mem::replace(&mut self.is_begun, true) && line.starts_with(BYTE_ORDER_MARK) {
            line.advance(BYTE_ORDER_MARK.len());
        }
        Ok(Some(line))
    }

    /// Adds a field to the event. A comment is a field without a name.
    fn take(&mut self, line: &[u8]) -> Result<()> {
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.name = value.to_owned(),
            "data" => {
                within(self.event.data.len() + value.len())?;
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        Ok(())
    }
}

fn within(bytes: usize) -> Result<()> {
    if bytes > MAX_EVENT_BYTES {
        return Err(Error::TooLong { limit: MAX_EVENT_BYTES });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for part in parts {
            decoder.push(part);
            while let Some(event) = decoder.next().unwrap() {
                events.push((event.name, event.data));
            }
        }
        events
    }

    fn data(stream: &[u8]) -> Vec<String> {
        decoded([stream]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn lines_end_in_lf_cr_or_both() {
        for end in ["\n", "\r", "\r\n"] {
            let stream = format!("data: one{end}{end}data:two{end}{end}");
            assert_eq!(data(stream.as_bytes()), ["one", "two"], "{end:?}");
        }
        assert_eq!(data(b"data: one\r\r\ndata: two\n\r"), ["one", "two"]);
    }

    #[test]
    fn an_event_has_its_type_and_joined_data_lines() {
        let stream = b": hello\nevent: ping\nid: 7\nretry: 5\ndata: one\ndata:  two\ndata\nunknown: x\n\n";
        assert_eq!(decoded([&stream[..]]), [("ping".to_owned(), "one\n two\n".to_owned())]);
        assert_eq!(decoded([&b"event: x\n\ndata: y\n\n"[..]]), [(String::new(), "y".to_owned())]);
    }

    #[test]
    fn only_the_first_line_may_have_a_byte_order_mark() {
        assert_eq!(
            data(b"\xef\xbb\xbfdata: one\n\n\xef\xbb\xbfdata: two\n\ndata: three\n\n"),
            ["one", "three"]
        );
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(data(b"data: a\xff\xe2\x82\n\ndata: \xe2\x82\xac\n\n"), ["a\u{fffd}\u{fffd}", "\u{20ac}"]);
    }

    #[test]
    fn an_incomplete_last_event_is_dropped() {
        assert_eq!(data(b"data: one\n\ndata: two\n"), ["one"]);
    }

    #[test]
    fn the_length_of_lines_and_events_is_limited() {
        let line = vec![b'x'; MAX_EVENT_BYTES + 1];
        let lines: Vec<u8> =
            b"data: ".iter().copied().chain(vec![b'x'; MAX_EVENT_BYTES / 2]).chain([b'\n']).collect();
        for parts in [vec![&line[..]], vec![&lines[..]; 3], vec![&line[..], b"\n"]] {
            let mut decoder = Decoder::default();
            let result = parts.into_iter().try_for_each(|part| {
                decoder.push(part);
                decoder.next().map(|event| assert_eq!(event, None))
            });
            assert!(matches!(result, Err(Error::TooLong { limit: MAX_EVENT_BYTES })), "{result:?}");
        }
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_chunk_boundaries(
            stream in "(\u{feff}?)((data|event|id|)(: ?[a-z\u{e9}\u{20ac}\u{1f600}]{0,4})?(\r|\n|\r\n){1,2}){0,12}",
            cuts in prop::collection::vec(0_usize..200, 0..8),
        ) {
            let stream = stream.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let parts = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
            prop_assert_eq!(decoded(parts), decoded([stream]));
            prop_assert_eq!(decoded(stream.chunks(1)), decoded([stream]));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(stream in prop::collection::vec(any::<u8>(), 0..300)) {
            decoded([&stream[..]]);
        }
    }
}

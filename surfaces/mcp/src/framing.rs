//! The two framings of messages on standard input and output.
//!
//! The protocol separates messages by line feeds. Some hosts put a `Content-Length` header before each message, as the
//! Language Server Protocol does. The first line of the input decides, and the output uses the same framing.

/// Maximum length of a message in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Maximum length of a header line in bytes. The rest of a longer one is skipped.
const MAX_HEADER_BYTES: usize = 1024;

/// The header that states the length of a message, and begins the first line of this framing.
const LENGTH_HEADER: &[u8] = b"content-length:";

const CONTENT: &[u8] = b"content-";

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How messages are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By line feeds.
    Lines,
    /// By headers with the length.
    Headers,
}

impl Framing {
    /// Adds the framing to a message.
    pub(crate) fn encode(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Lines => [message, b"\n"].concat(),
            Self::Headers => {
                [format!("Content-Length: {}\r\n\r\n", message.len()).as_bytes(), message].concat()
            }
        }
    }
}

/// A part of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A message.
    Message(Vec<u8>),
    /// A message longer than [`MAX_MESSAGE_BYTES`]. It is skipped.
    TooLarge,
    /// Headers without a length.
    NoLength,
}

/// Finds messages in the input. Keeps at most one message.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    framing: Option<Framing>,
    stage: Stage,
    part: Vec<u8>,
}

/// What the next byte belongs to.
#[derive(Debug, Default, Clone, Copy)]
enum Stage {
    /// A message that a line feed ends.
    #[default]
    Line,
    /// The rest of a line that is too long.
    SkippedLine,
    /// The headers of a message.
    Headers { length: Option<usize>, is_empty: bool },
    /// A message with a length.
    Body { left: usize },
    /// A message with a length that is too long.
    SkippedBody { left: usize },
}

const NEW_HEADERS: Stage = Stage::Headers { length: None, is_empty: true };

impl Decoder {
    /// The framing of the input, after its first line.
    pub(crate) fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// Takes bytes up to the end of the next frame. Returns their number and the frame.
    pub(crate) fn take(&mut self, input: &[u8]) -> (usize, Option<Frame>) {
        match self.stage {
            Stage::Body { left } => {
                let taken = left.min(input.len());
                self.part.extend_from_slice(&input[..taken]);
                (taken, self.end_body(left - taken))
            }
            Stage::SkippedBody { left } => {
                let taken = left.min(input.len());
                let left = left - taken;
                self.stage = if left == 0 { NEW_HEADERS } else { Stage::SkippedBody { left } };
                (taken, None)
            }
            Stage::SkippedLine => match position_of_line_feed(input) {
                Some(end) => {
                    self.stage = Stage::Line;
                    (end + 1, None)
                }
                None => (input.len(), None),
            },
            Stage::Line => self.take_line(input, MAX_MESSAGE_BYTES),
            Stage::Headers { .. } => self.take_line(input, MAX_HEADER_BYTES),
        }
    }

    fn take_line(&mut self, input: &[u8], max_bytes: usize) -> (usize, Option<Frame>) {
        let end = position_of_line_feed(input);
        let text = &input[..end.unwrap_or(input.len())];
        let taken = end.map_or(input.len(), |end| end + 1);
        let free = max_bytes - self.part.len();
        if text.len() > free && matches!(self.stage, Stage::Line) {
            self.part = Vec::new();
            self.framing.get_or_insert(Framing::Lines);
            self.stage = if end.is_some() { Stage::Line } else { Stage::SkippedLine };
            return (taken, Some(Frame::TooLarge));
        }
        self.part.extend_from_slice(&text[..text.len().min(free)]);
        (taken, end.and_then(|_| self.end_line()))
    }

    fn end_line(&mut self) -> Option<Frame> {
        let part = std::mem::take(&mut self.part);
        let line = without_mark(part.trim_ascii());
        if self.framing.is_none() && !line.is_empty() {
            let has_headers = starts_with(line, CONTENT);
            self.framing = Some(if has_headers { Framing::Headers } else { Framing::Lines });
            self.stage = if has_headers { NEW_HEADERS } else { Stage::Line };
        }
        match self.stage {
            Stage::Headers { length, is_empty } => self.end_header(line, length, is_empty),
            _ if line.is_empty() => None,
            // Most lines need no trimming, so they are not copied.
            _ if line.len() == part.len() => Some(Frame::Message(part)),
            _ => Some(Frame::Message(line.to_vec())),
        }
    }

    fn end_header(&mut self, line: &[u8], length: Option<usize>, is_empty: bool) -> Option<Frame> {
        if !line.is_empty() {
            let length = length_of(line).or(length);
            self.stage = Stage::Headers { length, is_empty: false };
            return None;
        }
        self.stage = NEW_HEADERS;
        match length {
            Some(0) => None,
            Some(left) if left > MAX_MESSAGE_BYTES => {
                self.stage = Stage::SkippedBody { left };
                Some(Frame::TooLarge)
            }
            Some(left) => {
                self.stage = Stage::Body { left };
                None
            }
            // Empty lines between messages are harmless.
            None => (!is_empty).then_some(Frame::NoLength),
        }
    }

    fn end_body(&mut self, left: usize) -> Option<Frame> {
        self.stage = if left == 0 { NEW_HEADERS } else { Stage::Body { left } };
        (left == 0).then(|| Frame::Message(std::mem::take(&mut self.part)))
    }
}

fn position_of_line_feed(input: &[u8]) -> Option<usize> {
    input.iter().position(|byte| *byte == b'\n')
}

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
}

fn starts_with(line: &[u8], prefix: &[u8]) -> bool {
    line.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn length_of(line: &[u8]) -> Option<usize> {
    let value = line.get(LENGTH_HEADER.len()..).filter(|_| starts_with(line, LENGTH_HEADER))?;
    std::str::from_utf8(value.trim_ascii()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames of the input, read in pieces.
    fn frames(input: &[u8], piece: usize) -> (Vec<Frame>, Decoder) {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for mut input in input.chunks(piece) {
            while !input.is_empty() {
                let (taken, frame) = decoder.take(input);
                input = &input[taken..];
                found.extend(frame);
            }
        }
        (found, decoder)
    }

    fn messages(texts: &[&str]) -> Vec<Frame> {
        texts.iter().map(|text| Frame::Message(text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn lines_are_messages() {
        let input = b"\xef\xbb\xbf{\"a\":1}\r\n\n  \n[2]\ngarbage \xff\n{\"half";
        for piece in [1, 2, 7, 100] {
            let (found, decoder) = frames(input, piece);
            assert_eq!(found[..2], messages(&["{\"a\":1}", "[2]"])[..]);
            assert_eq!(found[2..], [Frame::Message(b"garbage \xff".to_vec())]);
            assert_eq!(decoder.framing(), Some(Framing::Lines));
        }
    }

    #[test]
    fn headers_state_the_length_of_messages() {
        let text =
            "Content-Length: 7\r\n\r\n{\"a\":1}content-type: application/json\r\nCONTENT-LENGTH:3\n\n[\n]";
        for piece in [1, 2, 7, 100] {
            let (found, decoder) = frames(format!("\r\n{text}\r\n\r\n{text}").as_bytes(), piece);
            assert_eq!(found, messages(&["{\"a\":1}", "[\n]", "{\"a\":1}", "[\n]"]));
            assert_eq!(decoder.framing(), Some(Framing::Headers));
        }
    }

    #[test]
    fn headers_without_a_length_are_skipped() {
        let long = format!("content-x: {}\r\n", "y".repeat(3 * MAX_HEADER_BYTES));
        let text = format!("{long}Content-Length: many\r\n\r\n{long}Content-Length: 2\r\n\r\n{{}}");
        let (found, decoder) = frames(text.as_bytes(), 1000);
        assert_eq!(found[0], Frame::NoLength);
        assert_eq!(found[1..], messages(&["{}"])[..]);
        assert!(decoder.part.capacity() <= 2 * MAX_HEADER_BYTES);
    }

    #[test]
    fn a_message_that_is_too_large_is_skipped() {
        let large = vec![b'x'; 4 * MAX_MESSAGE_BYTES];
        let line = [&large, &b"\n{}\n"[..]].concat();
        let length = format!("Content-Length: {}\r\n\r\n", large.len());
        let body = [length.as_bytes(), &large, b"Content-Length: 2\r\n\r\n{}"].concat();
        for input in [line, body] {
            let (found, decoder) = frames(&input, 64 * 1024);
            assert_eq!(found, [Frame::TooLarge, Frame::Message(b"{}".to_vec())]);
            assert!(decoder.part.capacity() < 1024);
        }
        let exact = [&large[..MAX_MESSAGE_BYTES], b"\n"].concat();
        assert_eq!(frames(&exact, 64 * 1024).0, [Frame::Message(large[..MAX_MESSAGE_BYTES].to_vec())]);
    }

    #[test]
    fn a_message_is_encoded_in_its_framing() {
        for framing in [Framing::Lines, Framing::Headers] {
            let (found, decoder) = frames(&framing.encode("{\"ü\":1}".as_bytes()), 3);
            assert_eq!((found, decoder.framing()), (messages(&["{\"ü\":1}"]), Some(framing)));
        }
    }
}

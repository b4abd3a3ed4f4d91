//! What a terminal wrote, for somebody who was not there.
//!
//! Programs ask the terminal things (where is the cursor, what are you), and it answers as if somebody typed. Asked
//! again for a viewer who comes later, its answers would be typed into whatever runs by then. So questions are left
//! out of what is replayed.

use super::scan::Scanner;

/// `bytes`, which begin with something whole, without the questions in them.
pub(super) fn without_questions(bytes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    let (mut scanner, mut begin) = (Scanner::default(), 0);
    for (at, byte) in bytes.iter().enumerate() {
        if scanner.step(*byte) {
            let sequence = &bytes[begin..=at];
            if !asks(sequence) {
                kept.extend_from_slice(sequence);
            }
            begin = at + 1;
        }
    }
    kept.extend_from_slice(&bytes[begin..]);
    kept
}

/// Whether a terminal answers this, going by xterm's control sequences.
fn asks(sequence: &[u8]) -> bool {
    match sequence {
        // ENQ and DECID.
        [0x05] | [0x1b, b'Z'] => true,
        [0x1b, b'[', parameters @ .., last] => control_asks(parameters, *last),
        // Colours and the clipboard, where a `?` stands for the value.
        [0x1b, b']', text @ ..] => without_end(text).ends_with(b"?"),
        // XTGETTCAP and DECRQSS.
        [0x1b, b'P', text @ ..] => text.starts_with(b"+q") || text.starts_with(b"$q"),
        _ => false,
    }
}

fn control_asks(parameters: &[u8], last: u8) -> bool {
    let first = parameters.first().copied();
    match last {
        // DA, DSR, DECREQTPARM. With `>` the second is a setting.
        b'c' => true,
        b'n' => first != Some(b'>'),
        b'x' => !parameters.contains(&b'$'),
        // DECRQM, XTVERSION, and what the keyboard sends.
        b'p' => parameters.ends_with(b"$"),
        b'q' => first == Some(b'>'),
        b'u' => first == Some(b'?'),
        // Reports of the window, between the orders to it.
        b't' => {
            let number = parameters.split(|byte| *byte == b';').next().unwrap_or_default();
            matches!(number, [b'1', b'1'..=b'9'] | b"20" | b"21")
        }
        _ => false,
    }
}

fn without_end(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\x07").or_else(|| text.strip_suffix(b"\x1b\\")).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_left_out() {
        let questions = "\x05|\x1bZ|\x1b[c|\x1b[>c|\x1b[0c|\x1b[6n|\x1b[?6n|\x1b[x|\x1b[?2026$p|\x1b[>q|\x1b[?u|\x1b[14t|\
                         \x1b[21t|\x1b]10;?\x07|\x1b]11;?\x1b\\|\x1b]52;c;?\x07|\x1bP+q544e\x1b\\|\x1bP$qm\x1b\\";
        let bars = without_questions(questions.as_bytes());
        assert!(bars.iter().all(|byte| *byte == b'|'), "{:?}", String::from_utf8_lossy(&bars));
        assert_eq!(bars.len(), questions.matches('|').count());
    }

    #[test]
    fn everything_else_stays() {
        let rest = "text?\r\n\x1b[31mé日\x1b[0m\x1b[2J\x1b[?1049h\x1b[22;0t\x1b[8;24;80t\x1b[>4n\x1b]0;what?!\x07\x1b[2 q\x1b[u\x1b[3";
        assert_eq!(without_questions(rest.as_bytes()), rest.as_bytes());
    }
}

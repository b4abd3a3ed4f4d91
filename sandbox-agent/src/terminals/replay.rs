//! Prepares a terminal's past output for a viewer that attaches later.
//!
//! Programs send queries to the terminal, such as the cursor's position or its type. The viewer's terminal answers
//! them with input. If a query is replayed to a later viewer, the answer becomes input of the program that runs then.
//! So queries are removed from replayed output.

use super::scan::Scanner;

/// Returns `bytes` without the queries. They must begin with a complete sequence.
pub(super) fn strip_queries(bytes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    let (mut scanner, mut begin) = (Scanner::default(), 0);
    for (at, byte) in bytes.iter().enumerate() {
        if scanner.step(*byte) {
            let sequence = &bytes[begin..=at];
            if !is_query(sequence) {
                kept.extend_from_slice(sequence);
            }
            begin = at + 1;
        }
    }
    kept.extend_from_slice(&bytes[begin..]);
    kept
}

/// Whether a terminal answers this sequence (xterm's control sequences).
fn is_query(sequence: &[u8]) -> bool {
    match sequence {
        // ENQ and DECID.
        [0x05] | [0x1b, b'Z'] => true,
        [0x1b, b'[', parameters @ .., last] => is_control_query(parameters, *last),
        // Colors and the clipboard, with `?` in place of the value.
        [0x1b, b']', text @ ..] => strip_terminator(text).ends_with(b"?"),
        // XTGETTCAP and DECRQSS.
        [0x1b, b'P', text @ ..] => text.starts_with(b"+q") || text.starts_with(b"$q"),
        _ => false,
    }
}

fn is_control_query(parameters: &[u8], last: u8) -> bool {
    let first = parameters.first().copied();
    match last {
        // DA, DSR, DECREQTPARM. With `>` the second one is a setting.
        b'c' => true,
        b'n' => first != Some(b'>'),
        b'x' => !parameters.contains(&b'$'),
        // DECRQM, XTVERSION, and the keyboard protocol.
        b'p' => parameters.ends_with(b"$"),
        b'q' => first == Some(b'>'),
        b'u' => first == Some(b'?'),
        // Reports about the window. Other values are commands to it.
        b't' => {
            let number = parameters.split(|byte| *byte == b';').next().unwrap_or_default();
            matches!(number, [b'1', b'1'..=b'9'] | b"20" | b"21")
        }
        _ => false,
    }
}

fn strip_terminator(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\x07").or_else(|| text.strip_suffix(b"\x1b\\")).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_removed() {
        let questions = "\x05|\x1bZ|\x1b[c|\x1b[>c|\x1b[0c|\x1b[6n|\x1b[?6n|\x1b[x|\x1b[?2026$p|\x1b[>q|\x1b[?u|\x1b[14t|\
                         \x1b[21t|\x1b]10;?\x07|\x1b]11;?\x1b\\|\x1b]52;c;?\x07|\x1bP+q544e\x1b\\|\x1bP$qm\x1b\\";
        let bars = strip_queries(questions.as_bytes());
        assert!(bars.iter().all(|byte| *byte == b'|'), "{:?}", String::from_utf8_lossy(&bars));
        assert_eq!(bars.len(), questions.matches('|').count());
    }

    #[test]
    fn everything_else_is_kept() {
        let rest = "text?\r\n\x1b[31mé日\x1b[0m\x1b[2J\x1b[?1049h\x1b[22;0t\x1b[8;24;80t\x1b[>4n\x1b]0;what?!\x07\x1b[2 q\x1b[u\x1b[3";
        assert_eq!(strip_queries(rest.as_bytes()), rest.as_bytes());
    }
}

//! JSON string encoding (RFC 8259, section 7) for command output, which can be gigabytes.
//!
//! serde_json checks one byte at a time. This checks sixteen, which the compiler turns into one comparison.

/// Number of bytes checked together.
const AT_ONCE: usize = 16;

/// Appends the text as a quoted string, exactly as serde_json would.
pub fn write_json(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.push(b'"');
    loop {
        let (plain, others) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        let Some((byte, after)) = others.split_first() else { break };
        escape(out, *byte);
        rest = after;
    }
    out.push(b'"');
}

fn must_be_escaped(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Number of bytes before the first one that must be escaped.
fn plain_length(bytes: &[u8]) -> usize {
    let is_plain =
        |part: &[u8; AT_ONCE]| !part.iter().fold(false, |found, byte| found | must_be_escaped(*byte));
    let (parts, _) = bytes.as_chunks::<AT_ONCE>();
    let plain = AT_ONCE * parts.iter().take_while(|part| is_plain(part)).count();
    let rest = &bytes[plain..];
    plain + rest.iter().position(|byte| must_be_escaped(*byte)).unwrap_or(rest.len())
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digits[0], digits[1]]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_written_as_serde_json_writes_it() {
        let characters = (0..0x300).chain(0x1f600..0x1f640).filter_map(char::from_u32);
        let all: String = characters.collect();
        // Each character at each position in a block, and all of them in a row.
        let places =
            all.chars().flat_map(|one| (0..=AT_ONCE).map(move |at| format!("{}{one}b", "a".repeat(at))));
        for text in places.chain([all.clone(), all.repeat(3), String::new()]) {
            let mut written = Vec::new();
            write_json(&mut written, &text);
            assert_eq!(written, serde_json::to_vec(&text).unwrap(), "{text:?}");
        }
    }
}

//! Escape sequences that models write in place of control characters.

/// Maximum number of digits of an octal sequence.
const OCTAL_DIGITS: usize = 3;

/// Replaces the sequences of Python's string literals, such as `\n` and `\x03`. Anything else is kept as it is.
pub(crate) fn unescaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        result.push_str(&rest[..at]);
        rest = &rest[at..];
        let (character, length) = sequence(&rest[1..]).unwrap_or(('\\', 0));
        result.push(character);
        rest = &rest[1 + length..];
    }
    result.push_str(rest);
    result
}

/// The character that a sequence stands for, and the length of the sequence without its backslash.
fn sequence(rest: &str) -> Option<(char, usize)> {
    let simple = match rest.chars().next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'e' => '\u{1b}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        same @ ('\\' | '\'' | '"') => same,
        'x' => return number(rest, 1, 2, 16),
        'u' => return number(rest, 1, 4, 16),
        'U' => return number(rest, 1, 8, 16),
        '0'..='7' => {
            let digits =
                rest.bytes().take(OCTAL_DIGITS).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
            return number(rest, 0, digits, 8);
        }
        _ => return None,
    };
    Some((simple, 1))
}

fn number(rest: &str, from: usize, digits: usize, radix: u32) -> Option<(char, usize)> {
    let digits =
        rest.get(from..from + digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let character = char::from_u32(u32::from_str_radix(digits, radix).ok()?)?;
    Some((character, from + digits.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_become_characters() {
        for (text, expected) in [
            ("yes\\n", "yes\n"),
            ("\\x03", "\u{3}"),
            ("\\033[A", "\u{1b}[A"),
            ("\\u00e9\\U0001f600", "é😀"),
            ("a\\\\n", "a\\n"),
            ("C:\\dir", "C:\\dir"),
            ("\\xg1 \\u12 \\", "\\xg1 \\u12 \\"),
            ("\\x+1\\xé", "\\x+1\\xé"),
            ("ünchanged\n", "ünchanged\n"),
        ] {
            assert_eq!(unescaped(text), expected, "{text}");
        }
    }
}

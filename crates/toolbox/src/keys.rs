//! Names of keys, and what a terminal sends for them (xterm's control sequences, cursor keys in normal mode).

/// The keys without a modifier.
const KEYS: [(&str, &str); 27] = [
    ("Enter", "\r"),
    ("Tab", "\t"),
    ("Escape", "\x1b"),
    ("Space", " "),
    ("Backspace", "\x7f"),
    ("Up", "\x1b[A"),
    ("Down", "\x1b[B"),
    ("Right", "\x1b[C"),
    ("Left", "\x1b[D"),
    ("Home", "\x1b[H"),
    ("End", "\x1b[F"),
    ("Insert", "\x1b[2~"),
    ("Delete", "\x1b[3~"),
    ("PageUp", "\x1b[5~"),
    ("PageDown", "\x1b[6~"),
    ("F1", "\x1bOP"),
    ("F2", "\x1bOQ"),
    ("F3", "\x1bOR"),
    ("F4", "\x1bOS"),
    ("F5", "\x1b[15~"),
    ("F6", "\x1b[17~"),
    ("F7", "\x1b[18~"),
    ("F8", "\x1b[19~"),
    ("F9", "\x1b[20~"),
    ("F10", "\x1b[21~"),
    ("F11", "\x1b[23~"),
    ("F12", "\x1b[24~"),
];

/// Maximum length of a name in bytes. It also bounds the number of modifiers.
const MAX_NAME_BYTES: usize = 24;

/// Returns what a terminal sends for a key: a name such as `Enter`, `Ctrl-C` or `Alt-x`, or a single character.
pub(crate) fn bytes_of(key: &str) -> Option<Vec<u8>> {
    if key.len() > MAX_NAME_BYTES {
        return None;
    }
    if let Some((_, bytes)) = KEYS.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)) {
        return Some(bytes.as_bytes().to_vec());
    }
    let mut chars = key.chars();
    if let (Some(only), None) = (chars.next(), chars.next()) {
        return Some(only.to_string().into_bytes());
    }
    let (modifier, rest) = key.split_once(['-', '+'])?;
    match modifier.to_ascii_lowercase().as_str() {
        "ctrl" | "control" | "c" => control(rest),
        "alt" | "meta" | "m" => Some([b"\x1b".to_vec(), bytes_of(rest)?].concat()),
        "shift" if rest.eq_ignore_ascii_case("tab") => Some(b"\x1b[Z".to_vec()),
        _ => None,
    }
}

/// Ctrl clears the upper bits of the characters from `@` to `_` (ECMA-48 C0).
fn control(rest: &str) -> Option<Vec<u8>> {
    match rest.as_bytes() {
        [byte @ (b'a'..=b'z' | b'@'..=b'_')] => Some(vec![byte & 0x1f]),
        b" " => Some(vec![0]),
        _ if rest.eq_ignore_ascii_case("space") => Some(vec![0]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_name_character_and_modifier() {
        for (key, bytes) in [
            ("Enter", "\r"),
            ("enter", "\r"),
            ("x", "x"),
            ("é", "é"),
            ("-", "-"),
            ("Ctrl-C", "\x03"),
            ("ctrl+d", "\x04"),
            ("C-[", "\x1b"),
            ("Ctrl-Space", "\0"),
            ("Alt-b", "\x1bb"),
            ("Alt-Enter", "\x1b\r"),
            ("Shift-Tab", "\x1b[Z"),
            ("F12", "\x1b[24~"),
        ] {
            assert_eq!(bytes_of(key).as_deref(), Some(bytes.as_bytes()), "{key}");
        }
        assert_eq!(bytes_of(&"m-".repeat(1_000_000)), None);
        for key in ["", "Return2", "Ctrl-", "Ctrl-Enter", "Hyper-x", "Alt-"] {
            assert_eq!(bytes_of(key), None, "{key}");
        }
    }
}

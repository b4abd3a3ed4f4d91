//! Text for a terminal: sizes, durations, and untrusted text without control sequences.

use std::time::Duration;

/// Escapes control characters and characters that change the writing direction. A session key or an error may contain
/// terminal control sequences.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if log_text::is_unsafe(char) {
            out.extend(char.escape_unicode());
        } else {
            out.push(char);
        }
    }
    out
}

/// Cuts the text to at most `chars` characters. The last one is then an ellipsis.
pub(super) fn cut(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    text.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
}

/// Number of bytes with a unit: `512 B`, `1.5 GiB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 10.0);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A duration in its largest unit: `40s`, `12m`, `3h`, `2d`.
pub(super) fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Parses the output of [`span`]. A number without a unit is rejected, because the unit would be a guess.
pub(super) fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("must be a number with s, m, h or d, such as 12h, not {text:?}");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// Parses a size with a unit, such as `512m` or `4g`, into MiB.
pub(super) fn parse_mib(text: &str) -> Result<u64, String> {
    let wrong = || format!("must be a whole number with m or g, such as 512m, not {text:?}");
    let lower = text.to_ascii_lowercase();
    let (number, mib) = match (lower.strip_suffix('m'), lower.strip_suffix('g')) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 1024),
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(mib).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_escaped() {
        assert_eq!(printable("a\u{1b}[2Jb\r\n\u{9b}1m"), "a\\u{1b}[2Jb\\u{d}\\u{a}\\u{9b}1m");
        assert_eq!(printable("chat:\u{202e}txt"), "chat:\\u{202e}txt");
        assert_eq!(printable("naïve 日本"), "naïve 日本");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("日本日本", 4), "日本日本");
        assert_eq!(cut("日本日本", 3), "日本…");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            [0, 999, 1023, 1536, 10 << 30].map(size),
            ["0 B", "999 B", "1.0 KiB", "1.5 KiB", "10 GiB"]
        );
        assert_eq!(size(u64::MAX), "16777216 TiB");
    }

    #[test]
    fn sizes_are_parsed_with_their_unit() {
        assert_eq!(["512m", "4g", "1M", "2G"].map(parse_mib), [512, 4096, 1, 2048].map(Ok));
        for wrong in ["", "512", "m", "-1g", "1.5g", "4t", "18446744073709551615g"] {
            assert!(parse_mib(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_are_parsed_and_formatted() {
        let seconds = [5, 119, 120, 7199, 7200, 172_800].map(|seconds| span(Duration::from_secs(seconds)));
        assert_eq!(seconds, ["5s", "119s", "2m", "119m", "2h", "2d"]);
        assert_eq!(parse_span("12h"), Ok(Duration::from_secs(43_200)));
        for wrong in ["", "12", "h", "-1h", "1.5h", "99999999999999999d", "1ж"] {
            assert!(parse_span(wrong).is_err(), "{wrong}");
        }
    }
}

//! Replaces secret values in the output of commands and terminals.
//!
//! Each value is replaced with the name of its variable in brackets, also where a value is split over several reads. A
//! possible beginning of a value at the end of the data so far is held back until more data or the end of the stream
//! decides. Only the exact bytes of a value are found, and no encoding of them; but also with escape sequences in between,
//! such as the colours of grep, because a terminal hides those and results have none.

use std::sync::Arc;

use agent_protocol::v1;
use output_text::Sequences;

/// The secret values of one command or terminal.
#[derive(Debug)]
pub(crate) struct Secrets {
    /// The longest value first.
    all: Vec<Secret>,
    /// Whether a value begins with this byte.
    first_bytes: [bool; 256],
}

struct Secret {
    value: Vec<u8>,
    replacement: Vec<u8>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.replacement))
    }
}

impl Secrets {
    /// Returns `None` if there is nothing to replace.
    pub(crate) fn new(given: Vec<v1::Secret>) -> Option<Arc<Self>> {
        let mut all: Vec<Secret> = given
            .into_iter()
            .filter(|secret| !secret.value.is_empty())
            .map(|secret| Secret {
                value: secret.value.into_bytes(),
                replacement: format!("[{}]", secret.name).into_bytes(),
            })
            .collect();
        all.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
        let mut first_bytes = [false; 256];
        for secret in &all {
            first_bytes[usize::from(secret.value[0])] = true;
        }
        (!all.is_empty()).then(|| Arc::new(Self { all, first_bytes }))
    }

    /// Like [`Self::new`], for what programs write to a terminal: it turns each line feed into a carriage return and a line
    /// feed (termios(3), ONLCR), unless a program turns that off.
    pub(crate) fn on_terminal(mut given: Vec<v1::Secret>) -> Option<Arc<Self>> {
        let of_lines = |secret: &v1::Secret| {
            let value = secret.value.contains('\n').then(|| secret.value.replace('\n', "\r\n"))?;
            Some(v1::Secret { name: secret.name.clone(), value })
        };
        let as_written: Vec<_> = given.iter().filter_map(of_lines).collect();
        given.extend(as_written);
        Self::new(given)
    }

    fn may_begin_at(&self, byte: u8) -> bool {
        self.first_bytes[usize::from(byte)]
    }
}

/// Returns a text with its values replaced.
pub(crate) fn redacted(secrets: Arc<Secrets>, text: &str) -> String {
    let mut redactor = Redactor::new(secrets);
    let mut shown = redactor.push(text.as_bytes());
    shown.extend(redactor.finish());
    String::from_utf8_lossy(&shown).into_owned()
}

/// Bytes of escape sequences within a value that are held back, so that the memory is bounded.
const MAX_SEQUENCE_BYTES: usize = 4096;

/// Replaces the values in one stream.
#[derive(Debug)]
pub(crate) struct Redactor {
    secrets: Arc<Secrets>,
    held: Vec<u8>,
    /// Whether each held byte belongs to the text, and not to an escape sequence.
    is_text: Vec<bool>,
    sequences: Sequences,
}

impl Redactor {
    pub(crate) fn new(secrets: Arc<Secrets>) -> Self {
        Self { secrets, held: Vec::new(), is_text: Vec::new(), sequences: Sequences::default() }
    }

    /// Adds what was read. Returns what may be shown.
    pub(crate) fn push(&mut self, read: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(read);
        self.is_text.extend(read.iter().map(|byte| self.sequences.shows(*byte)));
        self.replace(self.undecided_from())
    }

    /// Whether something is held back.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the rest, at the end of the stream.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.replace(self.held.len())
    }

    /// Takes the held data up to `until`, and to the end of a value that begins before it.
    fn replace(&mut self, until: usize) -> Vec<u8> {
        let mut shown = Vec::with_capacity(until);
        let mut at = 0;
        while at < until {
            match self.found_at(at) {
                Some((secret, end)) => {
                    shown.extend_from_slice(&secret.replacement);
                    // Without their sequences, colours would not end where the text had them end.
                    if secret.value.len() < end - at {
                        shown.extend((at..end).filter(|at| !self.is_text[*at]).map(|at| self.held[at]));
                    }
                    at = end;
                }
                None => {
                    shown.push(self.held[at]);
                    at += 1;
                }
            }
        }
        self.held.drain(..at);
        self.is_text.drain(..at);
        shown
    }

    /// The longest value that begins here, and where it ends.
    fn found_at(&self, at: usize) -> Option<(&Secret, usize)> {
        let found = |secret| {
            self.views_at(at).find_map(|view| match self.look_for(secret, at, view) {
                Found::Until(end) => Some((secret, end)),
                Found::Begun | Found::Nothing => None,
            })
        };
        self.secrets.all.iter().find_map(found)
    }

    /// The first position from which on the held data may be the beginning of a value that is not complete yet.
    fn undecided_from(&self) -> usize {
        let longest = self.secrets.all.first().map_or(0, |secret| secret.value.len());
        let from = self.held.len().saturating_sub(longest + MAX_SEQUENCE_BYTES);
        let is_begun = |at: usize, secret| {
            self.views_at(at).any(|view| matches!(self.look_for(secret, at, view), Found::Begun))
        };
        (from..self.held.len())
            .find(|at| self.secrets.all.iter().any(|secret| is_begun(*at, secret)))
            .unwrap_or(self.held.len())
    }

    /// The views in which a value may begin here.
    fn views_at(&self, at: usize) -> impl Iterator<Item = View> {
        let may_begin = self.secrets.may_begin_at(self.held[at]);
        let views = [(View::Bytes, may_begin), (View::Text, may_begin && self.is_text[at])];
        views.into_iter().filter_map(|(view, is_possible)| is_possible.then_some(view))
    }

    fn look_for(&self, secret: &Secret, at: usize, view: View) -> Found {
        let mut expected = secret.value.iter();
        let limit = at + secret.value.len() + MAX_SEQUENCE_BYTES;
        for at in at..self.held.len().min(limit) {
            if matches!(view, View::Text) && !self.is_text[at] {
                continue;
            }
            if expected.next() != Some(&self.held[at]) {
                return Found::Nothing;
            }
            if expected.len() == 0 {
                return Found::Until(at + 1);
            }
        }
        if self.held.len() < limit { Found::Begun } else { Found::Nothing }
    }
}

/// What of the data is compared with a value.
#[derive(Debug, Clone, Copy)]
enum View {
    Bytes,
    /// The bytes that are not part of an escape sequence.
    Text,
}

enum Found {
    Nothing,
    /// All data from here on is the beginning of the value.
    Begun,
    /// The whole value, which ends here.
    Until(usize),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redactor(secrets: &[(&str, &str)]) -> Redactor {
        let secret =
            |(name, value): &(&str, &str)| v1::Secret { name: (*name).into(), value: (*value).into() };
        Redactor::new(Secrets::new(secrets.iter().map(secret).collect()).unwrap())
    }

    /// The text that is shown after each part, and at the end.
    fn shown(secrets: &[(&str, &str)], parts: &[&str]) -> Vec<String> {
        let mut redactor = redactor(secrets);
        let mut shown: Vec<_> = parts.iter().map(|part| redactor.push(part.as_bytes())).collect();
        shown.push(redactor.finish());
        shown.into_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect()
    }

    #[test]
    fn a_value_is_replaced_and_only_its_possible_beginning_is_held_back() {
        let secret = [("KEY", "hunter2!")];
        assert_eq!(shown(&secret, &["a hunter2! b"]), ["a [KEY] b", ""]);
        assert_eq!(shown(&secret, &["a hun", "ter2", "! b"]), ["a ", "", "[KEY] b", ""]);
        assert_eq!(shown(&secret, &["a hun", "t"]), ["a ", "", "hunt"]);
        assert_eq!(shown(&secret, &["hhunter2!hunter2!"]), ["h[KEY][KEY]", ""]);
    }

    #[test]
    fn the_longest_value_wins() {
        let secrets = [("SHORT", "abcdefgh"), ("LONG", "abcdefghij")];
        assert_eq!(shown(&secrets, &["abcdefgh", "ij"]), ["", "[LONG]", ""]);
        assert_eq!(shown(&secrets, &["abcdefghi", "!"]), ["", "[SHORT]i!", ""]);
        assert_eq!(shown(&secrets, &["abcdefgh"]), ["", "[SHORT]"]);
        // A value that begins within another one is never complete in the result.
        assert_eq!(
            shown(&[("A", "12345678"), ("B", "78abcdef")], &["12345678", "abcdef"]).concat(),
            "[A]abcdef"
        );
    }

    #[test]
    fn a_value_of_several_lines_is_found_as_a_terminal_writes_it() {
        let secret = v1::Secret { name: "KEY".into(), value: "two\nlines".into() };
        let mut redactor = Redactor::new(Secrets::on_terminal(vec![secret]).unwrap());
        assert_eq!(redactor.push(b"a two\r\nlines b two\nlines c t"), b"a [KEY] b [KEY] c ");
        assert!(redactor.is_holding());
        assert_eq!(redactor.finish(), b"t");
        assert!(!redactor.is_holding());
    }

    #[test]
    fn a_value_is_found_with_colours_in_between() {
        let secret = [("KEY", "hunter2!")];
        assert_eq!(
            shown(&secret, &["a hun\x1b[1;31mter\x1b[m\x1b[K2! b"]),
            ["a [KEY]\x1b[1;31m\x1b[m\x1b[K b", ""]
        );
        assert_eq!(shown(&secret, &["\x1b[1mhunter2!\x1b[m"]), ["\x1b[1m[KEY]\x1b[m", ""]);
        assert_eq!(
            shown(&secret, &["a h\x1b[", "31mu\x1b[", "mnter2", "!"]),
            ["a ", "", "", "[KEY]\x1b[31m\x1b[m", ""]
        );
        // A title that never ends hides nothing from the search for all bytes.
        assert_eq!(shown(&secret, &["\x1b]0;hunter2! hun\x1b[1m"]), ["\x1b]0;[KEY] hun\x1b[1m", ""]);
        assert_eq!(shown(&secret, &["hun\x1b[1m", "t"]), ["", "", "hun\x1b[1mt"]);
    }

    #[test]
    fn sequences_that_never_end_are_not_held_back_for_ever() {
        let mut redactor = redactor(&[("KEY", "hunter2!")]);
        let mut shown = 0;
        redactor.push(b"hun");
        for _ in 0..20 {
            shown += redactor.push("\x1b[1m".repeat(1000).as_bytes()).len();
            assert!(redactor.held.len() <= 8 + MAX_SEQUENCE_BYTES);
        }
        assert_eq!(shown + redactor.finish().len(), 80_003);
    }

    proptest! {
        #[test]
        fn no_split_shows_a_value(text in "(a|b|\x1b\\[1m|\x07){0,40}", splits in proptest::collection::vec(0usize..41, 0..5)) {
            let secrets = [("X", "aab"), ("Y", "aabab"), ("Z", "bbb")];
            let whole = shown(&secrets, &[&text]).concat();
            let mut cuts: Vec<usize> = splits.into_iter().map(|at| at.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let parts: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            prop_assert_eq!(&shown(&secrets, &parts).concat(), &whole);
            for (_, value) in secrets {
                prop_assert!(!whole.contains(value), "{whole}");
                prop_assert!(!output_text::cleaned(&whole).contains(value), "{whole}");
            }
        }
    }
}

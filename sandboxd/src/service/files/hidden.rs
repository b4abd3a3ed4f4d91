//! Files as a model may see them: without the values of secret variables.

use std::iter;

use aho_corasick::{AhoCorasick, MatchKind};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use crate::agent;
use crate::model::files::{Edited, FileInfo, GrepMatch};
use crate::model::limits::MAX_SEARCH_LINE_BYTES;
use crate::model::secret::{SECRET_BYTES, Secret};
use crate::service::lifecycle::Sandbox;

/// Maximum length of a name in the place of its value, in characters. A short value cannot grow without bound.
const MAX_SHOWN_NAME: usize = 64;

/// What happens to the values of the sandbox's secret variables in the content of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretValues {
    /// They are shown.
    Shown,
    /// `[NAME]` is shown in the place of each.
    Hidden,
}

impl SecretValues {
    /// Those of a sandbox. `None` if nothing is replaced.
    pub(super) fn of(self, sandbox: &Sandbox) -> Option<Values> {
        match self {
            Self::Shown => None,
            Self::Hidden => Values::new(&sandbox.with_spec(|spec| spec.secrets())),
        }
    }
}

/// The values to replace. The time is linear in the length of a content, however many values there are.
#[derive(Debug)]
pub(super) struct Values {
    search: AhoCorasick,
    /// What is shown instead, in the order of the search's patterns.
    replacements: Vec<String>,
    /// Length of the longest value in bytes.
    longest: usize,
}

impl Values {
    /// Of a value with several lines, each line counts too, because matches and differences show lines apart, and programs
    /// indent them. Short ones do not: they are found in texts that are not secret.
    fn new(secrets: &[Secret]) -> Option<Self> {
        let mut values = Vec::new();
        for Secret { name, value } in secrets {
            let name: String = name.chars().take(MAX_SHOWN_NAME).collect();
            // The lines after it keep their numbers.
            let line_feeds = "\n".repeat(value.matches('\n').count());
            let is_long =
                |line: &&str| line.split_whitespace().map(str::len).sum::<usize>() >= *SECRET_BYTES.start();
            let lines = value.lines().map(str::trim).filter(is_long);
            values.extend(lines.map(|line| (line, format!("[{name}]"))));
            values.extend(iter::once((value.as_str(), format!("[{name}]{line_feeds}"))));
        }
        let longest = values.iter().map(|(value, _)| value.len()).max()?;
        let mut search = AhoCorasick::builder();
        let search =
            search.match_kind(MatchKind::LeftmostLongest).build(values.iter().map(|(value, _)| value));
        // Without it, the values would be shown.
        let search = search.expect("a search for at most 32 KiB, twice, can be built");
        let replacements = values.into_iter().map(|(_, replacement)| replacement).collect();
        Some(Self { search, replacements, longest })
    }

    /// Takes what cannot be the beginning of a value that is not complete, and replaces the values in it. At the end, takes
    /// everything.
    fn take(&self, held: &mut Vec<u8>, is_end: bool) -> Vec<u8> {
        let until = if is_end { held.len() } else { (held.len() + 1).saturating_sub(self.longest) };
        let mut shown = Vec::with_capacity(until);
        let mut at = 0;
        for found in self.search.find_iter(held.as_slice()).take_while(|found| found.start() < until) {
            shown.extend_from_slice(&held[at..found.start()]);
            shown.extend_from_slice(self.replacements[found.pattern()].as_bytes());
            at = found.end();
        }
        let taken = until.max(at);
        shown.extend_from_slice(&held[at..taken]);
        held.drain(..taken);
        shown
    }

    fn in_bytes(&self, bytes: &[u8]) -> Bytes {
        self.take(&mut bytes.to_vec(), true).into()
    }

    pub(super) fn in_edited(&self, edited: Edited) -> Edited {
        Edited { diff: self.in_bytes(&edited.diff), ..edited }
    }

    /// A line that the agent has cut may end within a value, so it becomes shorter by the length of one.
    pub(super) fn in_match(&self, found: GrepMatch) -> GrepMatch {
        let is_cut = found.text.len() >= MAX_SEARCH_LINE_BYTES;
        let text = self.take(&mut found.text.to_vec(), !is_cut).into();
        GrepMatch { path: self.in_bytes(&found.path), text, ..found }
    }

    /// Names of entries, which then cannot be opened by them.
    pub(super) fn in_info(&self, info: FileInfo) -> FileInfo {
        let target = info.target.map(|target| self.in_bytes(&target));
        FileInfo { path: self.in_bytes(&info.path), target, ..info }
    }

    pub(super) fn in_stream(
        self,
        bytes: BoxStream<'static, Result<Bytes, agent::Error>>,
    ) -> BoxStream<'static, Result<Bytes, agent::Error>> {
        stream::unfold(Some((bytes, self, Vec::new())), next_shown).boxed()
    }
}

type Rest = (BoxStream<'static, Result<Bytes, agent::Error>>, Values, Vec<u8>);

/// The next piece, and the rest after it.
async fn next_shown(rest: Option<Rest>) -> Option<(Result<Bytes, agent::Error>, Option<Rest>)> {
    let (mut bytes, values, mut held) = rest?;
    match bytes.next().await {
        Some(Ok(piece)) => {
            held.extend_from_slice(&piece);
            let shown = values.take(&mut held, false).into();
            Some((Ok(shown), Some((bytes, values, held))))
        }
        Some(Err(error)) => Some((Err(error), None)),
        None => Some((Ok(values.take(&mut held, true).into()), None)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(secrets: &[(&str, &str)]) -> Values {
        let secret = |(name, value): &(&str, &str)| Secret { name: (*name).into(), value: (*value).into() };
        Values::new(&secrets.iter().map(secret).collect::<Vec<_>>()).unwrap()
    }

    /// What is shown of a content that arrives in parts.
    fn shown(values: &Values, parts: &[&str]) -> String {
        let (mut held, mut shown) = (Vec::new(), Vec::new());
        for part in parts {
            held.extend_from_slice(part.as_bytes());
            shown.extend(values.take(&mut held, false));
            assert!(held.len() < values.longest);
        }
        shown.extend(values.take(&mut held, true));
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn a_value_is_replaced_by_its_name() {
        let values = values(&[("SHORT", "abcdefgh"), ("LONG", "abcdefghij")]);
        assert_eq!(shown(&values, &["x abcdefghij abcdefghi"]), "x [LONG] [SHORT]i");
        assert_eq!(shown(&values, &["x abc", "defgh", "ij abcdefg"]), "x [LONG] abcdefg");
        assert!(Values::new(&[]).is_none());
    }

    #[test]
    fn each_line_of_a_value_is_replaced_and_no_line_moves() {
        let values = values(&[("KEY", "-- begin --\nMIIEpAIBAAK\n}\n")]);
        assert_eq!(shown(&values, &["a\n-- begin --\nMIIEpAIBAAK\n}\nb"]), "a\n[KEY]\n\n\nb");
        let other_form = "a\r\n  -- begin --\r\n  MIIEpAIBAAK\r\n  }\r\n";
        assert_eq!(shown(&values, &[other_form]), "a\r\n  [KEY]\r\n  [KEY]\r\n  }\r\n");
        assert_eq!(shown(&values, &["+-- begin --\n+}\n"]), "+[KEY]\n+}\n");
    }

    #[test]
    fn a_short_value_with_a_long_name_grows_only_so_far() {
        let values = values(&[(&"N".repeat(32_000), "abcdefgh")]);
        assert_eq!(shown(&values, &["abcdefgh"]).len(), MAX_SHOWN_NAME + 2);
    }

    #[test]
    fn a_line_that_is_cut_does_not_end_with_the_beginning_of_a_value() {
        let values = values(&[("KEY", "abcdefgh")]);
        let of = |text: String| {
            let found = GrepMatch { path: "abcdefgh".into(), line: 1, column: 0, text: text.into() };
            values.in_match(found)
        };
        let cut = of(format!("{}abcdefg", "x".repeat(MAX_SEARCH_LINE_BYTES - 7)));
        assert_eq!((cut.path, cut.text), ("[KEY]".into(), "x".repeat(MAX_SEARCH_LINE_BYTES - 7).into()));
        assert_eq!(of("xabcdefg".to_owned()).text, "xabcdefg");
    }

    proptest! {
        #[test]
        fn no_split_changes_what_is_shown(text in "[ab]{0,40}", splits in proptest::collection::vec(0usize..41, 0..5)) {
            let values = values(&[("X", "aab"), ("Y", "aabab"), ("Z", "bbb")]);
            let mut cuts: Vec<usize> = splits.into_iter().map(|at| at.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let parts: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            let whole = shown(&values, &[&text]);
            prop_assert_eq!(&shown(&values, &parts), &whole);
            prop_assert!(!["aab", "aabab", "bbb"].iter().any(|value| whole.contains(value)), "{whole}");
        }
    }
}

//! Replacements in a text. They run on a thread that may block, for a few requests at once, and within limits on their
//! work.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::failure::Failure;

/// Maximum size of a file that is edited, before and after each replacement.
pub(crate) const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of replacements in a request.
const MAX_REPLACEMENTS: usize = 256;

/// Maximum number of places that all replacements of a request change.
const MAX_OCCURRENCES: usize = 250_000;

/// Maximum size of all texts that the replacements of a request search, one after the other. All of them may search a
/// file of 1 MiB.
const MAX_SEARCHED_BYTES: usize = 256 * 1024 * 1024;

/// Maximum number of edits at once. Each has its file in memory twice.
const MAX_EDITS: usize = 2;

/// How long an edit waits for others.
const TURN: Duration = Duration::from_secs(10);

/// Characters of a text that an error repeats.
const SHOWN_CHARS: usize = 100;

/// A text to find, and what replaces it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Replacement {
    target: String,
    replacement: String,
    /// First line in which the text is searched, counted from 1.
    start_line: Option<usize>,
    /// Last line in which the text is searched.
    end_line: Option<usize>,
    #[serde(default)]
    allow_multiple: bool,
}

/// Permits for edits.
#[derive(Debug, Clone)]
pub(crate) struct Edits(Arc<Semaphore>);

impl Default for Edits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_EDITS)))
    }
}

impl Edits {
    /// Waits for a permit, which is needed before the file is read.
    pub(crate) async fn permit(&self) -> Result<EditPermit, Failure> {
        match timeout(TURN, Arc::clone(&self.0).acquire_owned()).await {
            Ok(Ok(_permit)) => Ok(EditPermit { _permit }),
            Ok(Err(_)) | Err(_) => Err(Failure::busy("too many files are edited: try again later")),
        }
    }
}

/// A permit for one edit. It is kept until the result is written.
pub(crate) struct EditPermit {
    _permit: OwnedSemaphorePermit,
}

impl EditPermit {
    /// Applies the replacements without blocking the caller's thread. Work that has begun keeps the permit even if the
    /// caller leaves.
    pub(crate) async fn apply(
        self,
        text: String,
        replacements: Vec<Replacement>,
    ) -> Result<(String, Self), Failure> {
        let applied = tokio::task::spawn_blocking(move || Ok((apply(text, &replacements)?, self)));
        applied.await.unwrap_or_else(|_| Err(Failure::internal("the replacements failed")))
    }
}

/// Applies replacements in order, each to the result of the previous one.
fn apply(mut text: String, replacements: &[Replacement]) -> Result<String, Failure> {
    if replacements.len() > MAX_REPLACEMENTS {
        let problem = format!("has more than {MAX_REPLACEMENTS} entries");
        return Err(Failure::argument("replacements", problem));
    }
    let (mut occurrences, mut searchable) = (MAX_OCCURRENCES, MAX_SEARCHED_BYTES);
    for replacement in replacements {
        searchable = searchable.checked_sub(text.len()).ok_or_else(|| {
            too_large(format_args!(
                "the replacements search too much text: at most {MAX_SEARCHED_BYTES} bytes together"
            ))
        })?;
        text = replacement.apply(&text, &mut occurrences)?;
    }
    Ok(text)
}

fn too_large(detail: impl Display) -> Failure {
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
}

impl Replacement {
    /// Replaces the target, and subtracts its occurrences from those that are left for the request.
    fn apply(&self, text: &str, left: &mut usize) -> Result<String, Failure> {
        if self.target.is_empty() {
            return Err(Failure::argument("target", "must not be empty"));
        }
        let (start, end) = region(text, self.start_line, self.end_line);
        let searched = &text[start..end];
        let count = self.count(searched)?;
        *left = left.checked_sub(count).ok_or_else(|| {
            too_large(format_args!("the replacements change more than {MAX_OCCURRENCES} places"))
        })?;
        let added = count.saturating_mul(self.replacement.len());
        let size = (text.len() - count * self.target.len()).saturating_add(added);
        if size > MAX_FILE_BYTES {
            return Err(too_large(format_args!("the file would have more than {MAX_FILE_BYTES} bytes")));
        }
        let mut replaced = String::with_capacity(size);
        replaced.push_str(&text[..start]);
        let mut kept = start;
        for (at, _) in searched.match_indices(&self.target) {
            replaced.push_str(&text[kept..start + at]);
            replaced.push_str(&self.replacement);
            kept = start + at + self.target.len();
        }
        replaced.push_str(&text[kept..]);
        Ok(replaced)
    }

    /// Number of occurrences, counted to one more than a request may have.
    fn count(&self, searched: &str) -> Result<usize, Failure> {
        let count = searched.matches(&self.target).take(MAX_OCCURRENCES + 1).count();
        let shown: String = self.target.chars().take(SHOWN_CHARS).collect();
        match count {
            0 => Err(Failure::bad_request(format_args!("Target string not found: {shown:?}"))),
            2.. if !self.allow_multiple => {
                let detail =
                    format!("Found {count} occurrences of target string but allow_multiple is false");
                Err(Failure::bad_request(detail))
            }
            count => Ok(count),
        }
    }
}

/// Where the lines begin and end in the text. Lines beyond the end of the text are empty.
fn region(text: &str, first: Option<usize>, last: Option<usize>) -> (usize, usize) {
    let end_of = |lines: usize| match lines {
        0 => 0,
        lines => text.match_indices('\n').nth(lines - 1).map_or(text.len(), |(at, _)| at + 1),
    };
    let start = first.map_or(0, |first| end_of(first.saturating_sub(1)));
    let end = last.map_or(text.len(), end_of);
    (start, end.max(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replacement(target: &str, replacement: &str) -> Replacement {
        Replacement { target: target.into(), replacement: replacement.into(), ..Replacement::default() }
    }

    fn applied(text: &str, replacement: Replacement) -> Result<String, String> {
        apply(text.into(), &[replacement]).map_err(|failure| failure.detail().to_owned())
    }

    #[test]
    fn lines_limit_the_search() {
        let text = "a\na\na";
        let within = |start_line, end_line| {
            applied(text, Replacement { start_line, end_line, ..replacement("a", "b") })
        };
        assert_eq!(within(Some(2), Some(2)).unwrap(), "a\nb\na");
        assert_eq!(within(Some(3), None).unwrap(), "a\na\nb");
        assert_eq!(within(None, Some(1)).unwrap(), "b\na\na");
        assert!(within(Some(4), None).unwrap_err().contains("not found"));
        assert!(within(Some(3), Some(1)).unwrap_err().contains("not found"));
        assert!(within(None, None).unwrap_err().contains("3 occurrences"));
        let all = Replacement { allow_multiple: true, ..replacement("a", "b") };
        assert_eq!(applied(text, all).unwrap(), "b\nb\nb");
    }

    #[tokio::test]
    async fn other_tasks_run_during_an_edit() {
        let text = format!("{}b", "a".repeat(64 * 1024));
        let edits = Edits::default();
        let permit = edits.permit().await.unwrap();
        let edited = tokio::spawn(permit.apply(text, vec![replacement("b", "b"); MAX_REPLACEMENTS / 2]));
        tokio::task::yield_now().await;
        assert!(!edited.is_finished(), "it runs on the thread of the test");
        assert!(edited.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_edit_waits_a_limited_time_for_others() {
        let edits = Edits::default();
        let mut permits = Vec::new();
        for _ in 0..MAX_EDITS {
            permits.push(edits.permit().await.unwrap());
        }
        assert!(edits.permit().await.is_err());
        let (text, permit) = permits.pop().unwrap().apply("a".into(), Vec::new()).await.unwrap();
        assert!(text == "a" && edits.permit().await.is_err());
        drop(permit);
        assert!(edits.permit().await.is_ok());
    }

    #[test]
    fn the_work_of_a_request_is_limited() {
        let (many, one) = ("a".repeat(MAX_OCCURRENCES + 1), "a".repeat(MAX_OCCURRENCES));
        let all = Replacement { allow_multiple: true, ..replacement("a", "b") };
        assert!(applied(&many, all.clone()).unwrap_err().contains("more than 250000"));
        assert_eq!(applied(&one, all).unwrap(), "b".repeat(MAX_OCCURRENCES));
        // The replacements count together, and so does the text that each of them searches.
        let twice = Replacement { allow_multiple: true, ..replacement("a", "a") };
        let half = "a".repeat(MAX_OCCURRENCES / 2 + 1);
        assert!(apply(half, &[twice.clone(), twice]).unwrap_err().detail().contains("more than 250000"));
        let large = format!("a\n{}", " ".repeat(MAX_FILE_BYTES - 2));
        let times = MAX_SEARCHED_BYTES / MAX_FILE_BYTES;
        let one = Replacement { end_line: Some(1), ..replacement("a", "a") };
        assert!(apply(large.clone(), &vec![one.clone(); times]).is_ok());
        let error = apply(large, &vec![one; times + 1]).unwrap_err();
        assert!(error.detail().contains("too much text"), "{error:?}");
    }

    #[test]
    fn a_result_that_is_too_large_is_rejected_before_it_exists() {
        let text = "a".repeat(1024 * 1024);
        let all = Replacement { allow_multiple: true, ..replacement("a", &"b".repeat(1024 * 1024)) };
        assert!(applied(&text, all).unwrap_err().contains("more than"));
        assert!(applied("a", replacement("", "b")).unwrap_err().contains("`target`"));
        assert!(apply("a".into(), &vec![replacement("a", "a"); MAX_REPLACEMENTS + 1]).is_err());
    }
}

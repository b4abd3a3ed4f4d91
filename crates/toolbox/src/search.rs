//! `search`: contents and names of files.

use sandbox_api::SandboxId;
use sandbox_api::files::{FileKind, GlobFiles, GrepFiles, Patterns};

use crate::toolbox::Toolbox;
use crate::{Error, Reply, input, output};

/// Results if the call has no limit.
const DEFAULT_RESULTS: u32 = 100;

/// Maximum number of results.
const MAX_RESULTS: u32 = 1000;

/// Maximum number of characters of a line.
const MAX_LINE_CHARS: usize = 300;

/// Maximum number of characters of all results.
const MAX_CHARS: usize = 30_000;

impl Toolbox {
    pub(crate) async fn search(&self, sandbox: &SandboxId, input: input::Search) -> Result<Reply, Error> {
        let max_results = input.max_results.unwrap_or(DEFAULT_RESULTS);
        if !(1..=MAX_RESULTS).contains(&max_results) {
            let problem = format!("must be 1 to {MAX_RESULTS}");
            return Err(Error::Argument { field: "maxResults", problem });
        }
        let found = match input.text {
            Some(query) => {
                let request = GrepFiles {
                    query,
                    path: input.path,
                    regex: input.regex,
                    case_insensitive: input.ignore_case,
                    include: input.files.map(Patterns::One),
                    max_results: Some(max_results),
                    include_ignored: input.include_ignored,
                    hide_secrets: Some(true),
                };
                let found = self.client.grep_files(sandbox, &request).await?;
                let matches = found.matches.into_iter().map(|found| output::Match {
                    path: found.path,
                    line: Some(found.line),
                    text: Some(found.text.chars().take(MAX_LINE_CHARS).collect()),
                });
                output::Found { matches: matches.collect(), truncated: found.truncated }
            }
            None => {
                let Some(pattern) = input.files else {
                    return Err(Error::Argument {
                        field: "text",
                        problem: "or `files` must be given".into(),
                    });
                };
                let request = GlobFiles {
                    pattern,
                    path: input.path,
                    exclude: None,
                    max_results: Some(max_results),
                    include_ignored: input.include_ignored,
                    hide_secrets: Some(true),
                };
                let found = self.client.glob_files(sandbox, &request).await?;
                let matches = found.entries.into_iter().map(|entry| {
                    let slash = if entry.kind == FileKind::Directory { "/" } else { "" };
                    output::Match { path: entry.path + slash, line: None, text: None }
                });
                output::Found { matches: matches.collect(), truncated: found.truncated }
            }
        };
        let found = within(found);
        Ok(Reply::new(text_of(&found), &found))
    }
}

/// Drops the last results if all are longer than a result may be.
fn within(mut found: output::Found) -> output::Found {
    let mut chars = 0;
    let fits = |found: &output::Match| {
        chars += found.path.chars().count() + found.text.as_ref().map_or(0, |text| text.chars().count());
        chars <= MAX_CHARS
    };
    let count = found.matches.iter().map(fits).take_while(|fits| *fits).count();
    found.truncated |= count < found.matches.len();
    found.matches.truncate(count);
    found
}

fn text_of(found: &output::Found) -> String {
    let mut lines: Vec<String> = found
        .matches
        .iter()
        .map(|found| match (found.line, &found.text) {
            (Some(line), Some(text)) => format!("{}:{line}:{text}", found.path),
            _ => found.path.clone(),
        })
        .collect();
    if lines.is_empty() {
        lines.push("[nothing found]".into());
    }
    if found.truncated {
        lines.push("[there may be more results: narrow the search]".into());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_cut_to_what_a_model_can_read() {
        let found = |number: usize| output::Match {
            path: format!("{number:05}"),
            line: Some(1),
            text: Some("x".repeat(MAX_LINE_CHARS)),
        };
        let all = output::Found { matches: (0..1000).map(found).collect(), truncated: false };
        let cut = within(all);
        assert!(cut.truncated && cut.matches.len() == MAX_CHARS / (MAX_LINE_CHARS + 5));
        assert!(text_of(&cut).ends_with("narrow the search]"));
    }
}

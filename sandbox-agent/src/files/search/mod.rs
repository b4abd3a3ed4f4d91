//! Searches for names and in files.
//!
//! Each file is opened beneath the workspace like any other. The search libraries get bytes and never a path. Entries that
//! `.gitignore` files exclude are skipped, and so is `.git`, unless the caller includes them. A search ends early if it has
//! found enough, takes too long or has seen too many files, and reports which.

mod gitignore;
mod glob;
mod grep;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Instant;

use agent_protocol::fault::Kind;
use agent_protocol::v1::Cut;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use self::gitignore::IgnoreRules;
use super::path::{FilePath, invalid};
use super::walk::{Entry, Walk};
use super::workspace::Workspace;
use crate::limits::{
    MAX_GITIGNORE_BYTES, MAX_PATTERN_BYTES, MAX_PATTERNS, MAX_SEARCH_RESULTS, MAX_SEARCHED_FILES,
    MAX_WALK_NAMES, SEARCH, SEARCH_REPLY_BYTES,
};

/// A walk that skips ignored entries and ends at its limits.
struct Search {
    walk: Walk,
    start: PathBuf,
    started: Instant,
    max_results: usize,
    seen: u64,
    exclude: GlobSet,
    /// One for each entered level, and one for all directories above. `None` if ignored entries are searched too.
    ignores: Option<Vec<IgnoreRules>>,
    is_cut: bool,
}

impl Search {
    fn new(
        workspace: &Workspace,
        path: &FilePath,
        max_results: u32,
        include_ignored: bool,
    ) -> Result<Self, Kind> {
        let mut search = Self::empty(max_results)?;
        let dir =
            workspace.open_dir(path.as_path()).map_err(|error| workspace.dir_lookup_fault(path, &error))?;
        if !include_ignored {
            let rules = IgnoreRules::down_to(workspace, &dir, &path.relative);
            search.is_cut = !rules.is_complete;
            search.ignores = Some(vec![rules]);
        }
        let walk = Walk::new(dir, path.relative.clone(), MAX_WALK_NAMES, None);
        search.walk = walk.map_err(|error| path.dir_fault(&error))?;
        search.start = path.relative.clone();
        Ok(search)
    }

    /// Creates an empty search with the usual limits.
    fn empty(max_results: u32) -> Result<Self, Kind> {
        if max_results == 0 || max_results > MAX_SEARCH_RESULTS {
            return Err(invalid("maxResults", format!("must be 1 to {MAX_SEARCH_RESULTS}")));
        }
        Ok(Self {
            walk: Walk::empty(),
            start: PathBuf::new(),
            started: Instant::now(),
            max_results: max_results as usize,
            seen: 0,
            exclude: GlobSet::empty(),
            ignores: None,
            is_cut: false,
        })
    }

    fn next(&mut self) -> Option<Entry> {
        while self.may_continue(0, 0) {
            let entry = self.walk.next()?;
            self.seen += 1;
            if let Some(ignores) = &mut self.ignores {
                ignores.truncate(entry.depth);
            }
            if self.is_skipped(&entry) {
                continue;
            }
            if entry.is_dir {
                self.add_rules_of(&entry);
                self.walk.enter(&entry);
            }
            return Some(entry);
        }
        None
    }

    fn is_skipped(&self, entry: &Entry) -> bool {
        if self.exclude.is_match(self.relative_to_start(entry)) {
            return true;
        }
        let Some(ignores) = &self.ignores else { return false };
        if entry.name == ".git" {
            return true;
        }
        // The nearest file with a matching rule decides (gitignore(5)).
        let files = ignores.iter().rev().flat_map(|rules| rules.files.iter().rev());
        let matches = files.map(|file| file.matched(&entry.path, entry.is_dir));
        matches.into_iter().find(|rule| !rule.is_none()).is_some_and(|rule| rule.is_ignore())
    }

    /// Adds the rules of the directory's own `.gitignore`. If the limit is reached, the search is reported as cut.
    fn add_rules_of(&mut self, entry: &Entry) {
        let Some(ignores) = &mut self.ignores else { return };
        let used: usize = ignores.iter().map(|rules| rules.bytes).sum();
        let dir = crate::files::dirs::open_no_follow(&entry.dir, Path::new(&entry.name));
        let read = dir.ok().and_then(|dir| gitignore::read(&dir, &entry.path, MAX_GITIGNORE_BYTES - used));
        let mut rules = IgnoreRules::none();
        rules.add(read);
        self.is_cut |= !rules.is_complete;
        ignores.push(rules);
    }

    fn relative_to_start<'a>(&self, entry: &'a Entry) -> &'a Path {
        entry.path.strip_prefix(&self.start).unwrap_or(&entry.path)
    }

    fn may_continue(&self, found: usize, bytes: usize) -> bool {
        self.limit_reached(found, bytes) == Cut::None
    }

    fn limit_reached(&self, found: usize, bytes: usize) -> Cut {
        match () {
            () if found > self.max_results || bytes >= SEARCH_REPLY_BYTES => Cut::Results,
            () if self.started.elapsed() >= SEARCH => Cut::Time,
            () if self.seen >= MAX_SEARCHED_FILES => Cut::Files,
            () => Cut::None,
        }
    }

    /// Returns why the search ended early, if it did.
    fn cut(&self, found: usize, bytes: usize) -> Cut {
        match self.limit_reached(found, bytes) {
            Cut::None if self.is_cut || self.walk.is_cut() => Cut::Files,
            cut => cut,
        }
    }
}

/// Compiles the patterns of a field.
fn globs(field: &str, patterns: &[String]) -> Result<GlobSet, Kind> {
    if patterns.len() > MAX_PATTERNS || patterns.iter().any(|pattern| pattern.len() > MAX_PATTERN_BYTES) {
        let problem = format!("must be at most {MAX_PATTERNS} patterns of at most {MAX_PATTERN_BYTES} bytes");
        return Err(invalid(field, problem));
    }
    let bad_glob = |error: globset::Error| invalid(field, format!("is not a valid glob: {error}"));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build().map_err(bad_glob)?);
    }
    set.build().map_err(bad_glob)
}

//! Searches the lines of files.

use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use cap_std::fs::File;
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Bytes as Lines;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::{Search, globs};
use crate::files::dirs::open_regular;
use crate::files::path::{FilePath, invalid, to_bytes};
use crate::files::workspace::Workspace;
use crate::limits::{MAX_PATTERN_BYTES, MAX_SEARCH_LINE_BYTES, SEARCH, SEARCH_HEAP_BYTES};

impl Workspace {
    /// Returns the matching lines, in the order of their files' paths.
    pub(crate) fn grep(&self, path: &FilePath, request: &v1::GrepRequest) -> Result<v1::GrepReply, Kind> {
        let mut grep = Grep { matcher: matcher(request)?, searcher: searcher(), found: Vec::new(), bytes: 0 };
        let include = globs("include", &request.include)?;
        let is_included = |path: &Path| include.is_empty() || include.is_match(path);
        let (max_results, include_ignored) = (request.max_results, request.include_ignored);
        let mut files_searched = 0;
        let search = if let Some(file) = self.open_single_file(path)? {
            let search = Search::empty(max_results)?;
            if is_included(path.relative.file_name().unwrap_or_default().as_ref()) {
                files_searched += 1;
                grep.search_file(&search, &path.relative, file);
            }
            search
        } else {
            let mut search = Search::new(self, path, max_results, include_ignored)?;
            while grep.may_continue(&search)
                && let Some(entry) = search.next()
            {
                if entry.is_dir || !is_included(search.relative_to_start(&entry)) {
                    continue;
                }
                let Some(file) = open_regular(&entry.dir, Path::new(&entry.name)) else { continue };
                files_searched += 1;
                grep.search_file(&search, &entry.path, file);
            }
            search
        };
        let cut = search.cut(grep.found.len(), grep.bytes).into();
        // The search continues for one more result, to know whether there are more.
        grep.found.truncate(search.max_results);
        Ok(v1::GrepReply { matches: grep.found, cut, files_searched })
    }

    /// Opens `path` if it is a file. Returns `None` for a directory.
    fn open_single_file(&self, path: &FilePath) -> Result<Option<File>, Kind> {
        match self.open_dir(path.as_path()) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            // Other errors are reported when the directory is opened.
            _ => return Ok(None),
        }
        let _ = path.split()?;
        let file = self.open_file(path.as_path()).map_err(|error| path.lookup_fault(&error))?;
        let meta = file.metadata().map_err(|error| path.fault(&error))?;
        if meta.is_file() { Ok(Some(file)) } else { Err(path.not_a_file()) }
    }
}

/// The pattern, and the lines found so far.
struct Grep {
    matcher: RegexMatcher,
    searcher: Searcher,
    found: Vec<v1::GrepMatch>,
    /// Size of the results.
    bytes: usize,
}

impl Grep {
    fn may_continue(&self, search: &Search) -> bool {
        search.may_continue(self.found.len(), self.bytes)
    }

    fn search_file(&mut self, search: &Search, path: &Path, file: File) {
        let Self { matcher, searcher, found, bytes } = self;
        let sink = Lines(|line, text| {
            let matched = to_match(matcher, path, line, text);
            *bytes += matched.path.len() + matched.text.len();
            found.push(matched);
            Ok(search.may_continue(found.len(), *bytes))
        });
        // A read error ends the search of this file.
        let timed = TimedReader { file, end: search.started + SEARCH };
        let _ = searcher.search_reader(&*matcher, timed, sink);
    }
}

fn matcher(request: &v1::GrepRequest) -> Result<RegexMatcher, Kind> {
    if request.query.is_empty() || request.query.len() > MAX_PATTERN_BYTES {
        return Err(invalid("query", format!("must be 1 to {MAX_PATTERN_BYTES} bytes long")));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(request.case_insensitive)
        .fixed_strings(!request.regex)
        .line_terminator(Some(b'\n'));
    let built = builder.build(&request.query);
    built.map_err(|error| invalid("query", format!("is not a valid regular expression: {error}")))
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        // A file that contains NUL is binary, and its lines may be as long as the file.
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(SEARCH_HEAP_BYTES))
        .build()
}

fn to_match(matcher: &RegexMatcher, path: &Path, line: u64, text: &[u8]) -> v1::GrepMatch {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let column = matcher.find(text).ok().flatten().map_or(0, |found| found.start());
    let text = bytes::Bytes::copy_from_slice(&text[..text.len().min(MAX_SEARCH_LINE_BYTES)]);
    v1::GrepMatch { path: to_bytes(path), line, text, column: u32::try_from(column).unwrap_or(u32::MAX) }
}

/// A file whose reads fail after the search's time limit.
struct TimedReader {
    file: File,
    end: Instant,
}

impl Read for TimedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() >= self.end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

//! Searches for names and in files.
//!
//! Each file is opened beneath the workspace like any other; the libraries are given bytes and never a path. What
//! `.gitignore` files leave out is left out, and so is `.git`, unless the caller wants everything: that is what
//! somebody who searches a checkout means. A search ends early where it has found enough, has taken too long or has
//! seen too much, and says which.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, Cut};
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Bytes as Lines;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::OFlags;

use super::path::{FilePath, invalid, to_bytes};
use super::walk::{Entry, Walk};
use super::{Workspace, info};
use crate::limits::{
    MAX_GITIGNORE_BYTES, MAX_PATTERN_BYTES, MAX_PATTERNS, MAX_SEARCH_LINE_BYTES, MAX_SEARCH_RESULTS,
    MAX_SEARCHED_FILES, MAX_WALK_NAMES, MESSAGE_BYTES, SEARCH, SEARCH_HEAP_BYTES, SEARCH_REPLY_BYTES,
};

impl Workspace {
    /// Lines that match, in the order of their files' paths.
    pub(crate) fn grep(&self, path: &FilePath, request: &v1::GrepRequest) -> Result<v1::GrepReply, Kind> {
        let mut grep = Grep { matcher: matcher(request)?, searcher: searcher(), found: Vec::new(), bytes: 0 };
        let include = globs("include", &request.include)?;
        let fits = |path: &Path| include.is_empty() || include.is_match(path);
        let (wanted, everything) = (request.max_results, request.include_ignored);
        let mut files_searched = 0;
        let hunt = if let Some(file) = self.alone(path)? {
            let hunt = Hunt::nowhere(wanted)?;
            if fits(path.relative.file_name().unwrap_or_default().as_ref()) {
                files_searched += 1;
                grep.search(&hunt, &path.relative, file);
            }
            hunt
        } else {
            let mut hunt = Hunt::new(self, path, wanted, everything)?;
            while grep.is_on(&hunt)
                && let Some(entry) = hunt.next()
            {
                if entry.is_dir || !fits(hunt.seen_from_start(&entry)) {
                    continue;
                }
                let Some(file) = open(&entry.dir, Path::new(&entry.name)) else { continue };
                files_searched += 1;
                grep.search(&hunt, &entry.path, file);
            }
            hunt
        };
        let cut = hunt.cut(grep.found.len(), grep.bytes).into();
        // One more than was wanted was looked for, to know whether there is more.
        grep.found.truncate(hunt.wanted);
        Ok(v1::GrepReply { matches: grep.found, cut, files_searched })
    }

    /// The file that `path` names, if it is one.
    fn alone(&self, path: &FilePath) -> Result<Option<File>, Kind> {
        match self.open_dir(path.as_path()) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            // Whatever else is wrong with it is told of a directory.
            _ => return Ok(None),
        }
        let _ = path.split()?;
        let file = self.open_file(path.as_path()).map_err(|error| path.lookup_fault(&error))?;
        let meta = file.metadata().map_err(|error| path.fault(&error))?;
        if meta.is_file() { Ok(Some(file)) } else { Err(path.not_a_file()) }
    }

    /// Files and directories whose path, seen from `path`, fits the pattern.
    pub(crate) fn glob(&self, path: &FilePath, request: &v1::GlobRequest) -> Result<v1::GlobReply, Kind> {
        if request.pattern.is_empty() {
            return Err(invalid("pattern", "must not be empty"));
        }
        let pattern = globs("pattern", std::slice::from_ref(&request.pattern))?;
        let exclude = globs("exclude", &request.exclude)?;
        let mut hunt = Hunt::new(self, path, request.max_results, request.include_ignored)?;
        hunt.exclude = exclude;
        let mut reply = v1::GlobReply::default();
        let mut bytes = 0;
        while let Some(entry) = hunt.next() {
            if !pattern.is_match(hunt.seen_from_start(&entry)) {
                continue;
            }
            if let Ok(info) = info::of_entry(&entry.dir, &entry.name, &entry.path) {
                bytes += info.path.len() + info.target.as_ref().map_or(0, bytes::Bytes::len);
                reply.entries.push(info);
            }
            if !hunt.is_on(reply.entries.len(), bytes) {
                break;
            }
        }
        reply.cut = hunt.cut(reply.entries.len(), bytes).into();
        reply.entries.truncate(hunt.wanted);
        Ok(reply)
    }
}

/// What lines are looked for, and those that were found.
struct Grep {
    matcher: RegexMatcher,
    searcher: Searcher,
    found: Vec<v1::GrepMatch>,
    /// Of what was found.
    bytes: usize,
}

impl Grep {
    fn is_on(&self, hunt: &Hunt) -> bool {
        hunt.is_on(self.found.len(), self.bytes)
    }

    fn search(&mut self, hunt: &Hunt, path: &Path, file: File) {
        let Self { matcher, searcher, found, bytes } = self;
        let sink = Lines(|line, text| {
            let matched = found_in(matcher, path, line, text);
            *bytes += matched.path.len() + matched.text.len();
            found.push(matched);
            Ok(hunt.is_on(found.len(), *bytes))
        });
        // A file that cannot be read to its end has been searched as far as it can be.
        let timed = Timed { file, end: hunt.began + SEARCH };
        let _ = searcher.search_reader(&*matcher, timed, sink);
    }
}

/// A walk that leaves out what nobody searches, within its limits.
struct Hunt {
    walk: Walk,
    start: PathBuf,
    began: Instant,
    wanted: usize,
    seen: u64,
    exclude: GlobSet,
    /// One for each level that was entered, and one for all above; none where everything is searched.
    ignores: Option<Vec<Ignored>>,
    cut: bool,
}

/// What the `.gitignore` of a directory says, and how long it is.
struct Ignored {
    says: Vec<Gitignore>,
    bytes: usize,
    /// None of it was too long to be followed.
    is_whole: bool,
}

impl Hunt {
    fn new(workspace: &Workspace, path: &FilePath, wanted: u32, everything: bool) -> Result<Self, Kind> {
        let mut hunt = Self::nowhere(wanted)?;
        let dir =
            workspace.open_dir(path.as_path()).map_err(|error| workspace.dir_lookup_fault(path, &error))?;
        if !everything {
            let ignored = Ignored::down_to(workspace, &dir, &path.relative);
            hunt.cut = !ignored.is_whole;
            hunt.ignores = Some(vec![ignored]);
        }
        let walk = Walk::new(dir, path.relative.clone(), MAX_WALK_NAMES, None);
        hunt.walk = walk.map_err(|error| path.dir_fault(&error))?;
        hunt.start = path.relative.clone();
        Ok(hunt)
    }

    /// One that finds nothing by itself, and has the limits of every other.
    fn nowhere(wanted: u32) -> Result<Self, Kind> {
        if wanted == 0 || wanted > MAX_SEARCH_RESULTS {
            return Err(invalid("maxResults", format!("must be 1 to {MAX_SEARCH_RESULTS}")));
        }
        Ok(Self {
            walk: Walk::nowhere(),
            start: PathBuf::new(),
            began: Instant::now(),
            wanted: wanted as usize,
            seen: 0,
            exclude: GlobSet::empty(),
            ignores: None,
            cut: false,
        })
    }

    fn next(&mut self) -> Option<Entry> {
        while self.is_on(0, 0) {
            let entry = self.walk.next()?;
            self.seen += 1;
            if let Some(ignores) = &mut self.ignores {
                ignores.truncate(entry.depth);
            }
            if self.is_left_out(&entry) {
                continue;
            }
            if entry.is_dir {
                self.ignore_in(&entry);
                self.walk.enter(&entry);
            }
            return Some(entry);
        }
        None
    }

    fn is_left_out(&self, entry: &Entry) -> bool {
        if self.exclude.is_match(self.seen_from_start(entry)) {
            return true;
        }
        let Some(ignores) = &self.ignores else { return false };
        if entry.name == ".git" {
            return true;
        }
        // The nearest file that says something decides (gitignore(5)).
        let said = ignores.iter().rev().flat_map(|ignored| ignored.says.iter().rev());
        let said = said.map(|ignore| ignore.matched(&entry.path, entry.is_dir));
        said.into_iter().find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
    }

    /// From here on what the entry's own `.gitignore` says holds too. Where those above say too much already it is not
    /// followed, and that is told.
    fn ignore_in(&mut self, entry: &Entry) {
        let Some(ignores) = &mut self.ignores else { return };
        let held: usize = ignores.iter().map(|ignored| ignored.bytes).sum();
        let dir = super::tree::open_itself(&entry.dir, Path::new(&entry.name));
        let read = dir.ok().and_then(|dir| gitignore(&dir, &entry.path, MAX_GITIGNORE_BYTES - held));
        let mut ignored = Ignored::nothing();
        ignored.add(read);
        self.cut |= !ignored.is_whole;
        ignores.push(ignored);
    }

    fn seen_from_start<'a>(&self, entry: &'a Entry) -> &'a Path {
        entry.path.strip_prefix(&self.start).unwrap_or(&entry.path)
    }

    fn is_on(&self, found: usize, bytes: usize) -> bool {
        self.cut_by(found, bytes) == Cut::None
    }

    fn cut_by(&self, found: usize, bytes: usize) -> Cut {
        match () {
            () if found > self.wanted || bytes >= SEARCH_REPLY_BYTES => Cut::Results,
            () if self.began.elapsed() >= SEARCH => Cut::Time,
            () if self.seen >= MAX_SEARCHED_FILES => Cut::Files,
            () => Cut::None,
        }
    }

    /// Why it ended before it was through, if it did.
    fn cut(&self, found: usize, bytes: usize) -> Cut {
        match self.cut_by(found, bytes) {
            Cut::None if self.cut || self.walk.is_cut() => Cut::Files,
            cut => cut,
        }
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
    built.map_err(|error| invalid("query", format!("is no regular expression: {error}")))
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        // What holds NUL is no text, and its lines may be as long as it is.
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(SEARCH_HEAP_BYTES))
        .build()
}

fn found_in(matcher: &RegexMatcher, path: &Path, line: u64, text: &[u8]) -> v1::GrepMatch {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let column = matcher.find(text).ok().flatten().map_or(0, |found| found.start());
    let text = bytes::Bytes::copy_from_slice(&text[..text.len().min(MAX_SEARCH_LINE_BYTES)]);
    v1::GrepMatch { path: to_bytes(path), line, text, column: u32::try_from(column).unwrap_or(u32::MAX) }
}

fn globs(field: &str, patterns: &[String]) -> Result<GlobSet, Kind> {
    if patterns.len() > MAX_PATTERNS || patterns.iter().any(|pattern| pattern.len() > MAX_PATTERN_BYTES) {
        let problem = format!("must be at most {MAX_PATTERNS} patterns of {MAX_PATTERN_BYTES} bytes");
        return Err(invalid(field, problem));
    }
    let no_glob = |error: globset::Error| invalid(field, format!("is no glob: {error}"));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build().map_err(no_glob)?);
    }
    set.build().map_err(no_glob)
}

/// Opens a regular file of `dir`, and nothing else.
fn open(dir: &Dir, name: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
    let file = dir.open_with(name, &options).ok()?;
    file.metadata().ok().filter(cap_std::fs::Metadata::is_file).map(|_| file)
}

impl Ignored {
    fn nothing() -> Self {
        Self { says: Vec::new(), bytes: 0, is_whole: true }
    }

    /// What holds in `dir`: its own, and those above it up to the workspace.
    fn down_to(workspace: &Workspace, dir: &Dir, path: &Path) -> Self {
        let mut ignored = Self::nothing();
        for above in path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            let at = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            if let Ok(dir) = workspace.open_dir(at) {
                ignored.add(gitignore(&dir, above, MAX_GITIGNORE_BYTES - ignored.bytes));
            }
        }
        ignored.add(gitignore(dir, path, MAX_GITIGNORE_BYTES - ignored.bytes));
        ignored
    }

    fn add(&mut self, read: Option<(Gitignore, usize, bool)>) {
        if let Some((says, bytes, is_whole)) = read {
            self.says.push(says);
            self.bytes += bytes;
            self.is_whole &= is_whole;
        }
    }
}

/// What the `.gitignore` of a directory says in its first `room` bytes, how many that are, and whether that is all; none
/// where there is none. What cannot be read or understood says nothing.
fn gitignore(dir: &Dir, path: &Path, room: usize) -> Option<(Gitignore, usize, bool)> {
    let file = open(dir, Path::new(".gitignore"))?;
    let mut text = Vec::new();
    file.take(room as u64 + 1).read_to_end(&mut text).ok()?;
    let is_whole = text.len() <= room;
    text.truncate(room);
    let mut builder = GitignoreBuilder::new(path);
    for line in String::from_utf8_lossy(&text).lines() {
        let _ = builder.add_line(None, line);
    }
    Some((builder.build().ok()?, text.len(), is_whole))
}

/// A file that ends when the search's time does.
struct Timed {
    file: File,
    end: Instant,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() >= self.end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

/// Matches and entries in messages that are not too large.
pub(crate) fn in_messages<T>(items: Vec<T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut messages = vec![Vec::new()];
    let mut bytes = 0;
    for item in items {
        bytes += bytes_of(&item);
        if bytes > MESSAGE_BYTES {
            bytes = bytes_of(&item);
            messages.push(Vec::new());
        }
        if let Some(message) = messages.last_mut() {
            message.push(item);
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::{Fixture, fixture};
    use super::*;

    fn tree() -> Fixture {
        let fixture = fixture();
        let files: [(&str, &[u8]); 7] = [
            ("src/main.rs", b"fn main() {}\r\nlet Needle = 1;\n"),
            ("src/deep/lib.rs", b"needle\nneedle two\n"),
            ("target/out.rs", b"needle\n"),
            (".gitignore", b"/target\n*.log\n"),
            ("src/deep/.gitignore", b"!kept.log\n"),
            ("src/deep/kept.log", b"needle\n"),
            ("binary", b"\0needle\n"),
        ];
        for (path, content) in files {
            let path = fixture.dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::create_dir(fixture.dir.path().join(".git")).unwrap();
        fs::write(fixture.dir.path().join(".git/HEAD"), b"needle\n").unwrap();
        fixture
    }

    fn grep(fixture: &Fixture, request: v1::GrepRequest) -> Result<(Vec<(String, u64)>, Cut), Kind> {
        let request = v1::GrepRequest { max_results: request.max_results.max(1), ..request };
        let reply = fixture.workspace.grep(&fixture.path(""), &request)?;
        let found =
            reply.matches.iter().map(|found| (String::from_utf8(found.path.to_vec()).unwrap(), found.line));
        Ok((found.collect(), reply.cut()))
    }

    fn query(query: &str, max_results: u32) -> v1::GrepRequest {
        v1::GrepRequest { query: query.into(), max_results, ..v1::GrepRequest::default() }
    }

    #[test]
    fn what_git_ignores_is_not_searched() {
        let (found, cut) = grep(&tree(), query("needle", 100)).unwrap();
        let found: Vec<(&str, u64)> = found.iter().map(|(path, line)| (path.as_str(), *line)).collect();
        assert_eq!(found, [("src/deep/kept.log", 1), ("src/deep/lib.rs", 1), ("src/deep/lib.rs", 2)]);
        assert_eq!(cut, Cut::None);
        let everything = v1::GrepRequest { include_ignored: true, ..query("needle", 100) };
        assert_eq!(grep(&tree(), everything).unwrap().0.len(), 5);
    }

    #[test]
    fn a_query_is_a_text_unless_it_says_that_it_is_a_pattern() {
        let fixture = tree();
        assert_eq!(grep(&fixture, query("m..n", 9)).unwrap().0.len(), 0);
        let pattern = v1::GrepRequest { regex: true, case_insensitive: true, ..query("^LET n\\w+", 9) };
        assert_eq!(grep(&fixture, pattern).unwrap().0, [("src/main.rs".to_owned(), 2)]);
        let broken = v1::GrepRequest { regex: true, ..query("(", 9) };
        assert!(matches!(grep(&fixture, broken), Err(Kind::FieldInvalid(fault)) if fault.field == "query"));
        let some = v1::GrepRequest { include: vec!["**/*.rs".into()], ..query("needle", 9) };
        assert_eq!(grep(&fixture, some).unwrap().0.len(), 2);
    }

    #[test]
    fn a_search_that_stops_early_says_so() {
        let fixture = tree();
        assert_eq!(grep(&fixture, query("needle", 2)).unwrap().1, Cut::Results);
        assert_eq!(grep(&fixture, query("needle", 3)).unwrap().1, Cut::None);
        assert_eq!(grep(&fixture, query("fn main", 1)).unwrap().0.len(), 1);
    }

    #[test]
    fn a_glob_is_about_paths() {
        let fixture = tree();
        let glob = |pattern: &str, exclude: &[&str]| {
            let exclude = exclude.iter().map(|glob| (*glob).to_owned()).collect();
            let request =
                v1::GlobRequest { pattern: pattern.into(), exclude, max_results: 9, ..Default::default() };
            let reply = fixture.workspace.glob(&fixture.path("src"), &request).unwrap();
            reply
                .entries
                .iter()
                .map(|info| String::from_utf8(info.path.to_vec()).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(glob("*.rs", &[]), ["src/main.rs"]);
        assert_eq!(glob("**/*.rs", &[]), ["src/deep/lib.rs", "src/main.rs"]);
        assert_eq!(glob("**/*.{rs,log}", &["deep"]), ["src/main.rs"]);
        assert_eq!(glob("*", &[]), ["src/deep", "src/main.rs"]);
    }

    #[test]
    fn patterns_to_ignore_are_bounded_over_all_levels() {
        let fixture = fixture();
        let mut dir = fixture.dir.path().to_owned();
        for _ in 0..4 {
            dir.push("d");
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join(".gitignore"), "pattern-*\n".repeat(MAX_GITIGNORE_BYTES / 20)).unwrap();
        }
        fs::write(dir.join("file"), "needle\n").unwrap();
        let (found, cut) = grep(&fixture, query("needle", 9)).unwrap();
        assert_eq!((found.len(), cut), (1, Cut::Files));
    }

    #[test]
    fn patterns_above_the_start_that_are_not_followed_are_told() {
        let fixture = fixture();
        fs::create_dir(fixture.dir.path().join("d")).unwrap();
        fs::write(fixture.dir.path().join("d/file"), "needle\n").unwrap();
        for (patterns, cut) in [(MAX_GITIGNORE_BYTES / 10, Cut::None), (MAX_GITIGNORE_BYTES, Cut::Files)] {
            fs::write(fixture.dir.path().join(".gitignore"), "pattern-*\n".repeat(patterns)).unwrap();
            for path in ["", "d"] {
                let reply = fixture.workspace.grep(&fixture.path(path), &query("needle", 9)).unwrap();
                assert_eq!((reply.matches.len(), reply.cut()), (1, cut), "{path:?}");
            }
        }
    }

    #[test]
    fn a_file_that_is_named_is_searched_alone() {
        let fixture = tree();
        let link = fixture.dir.path().join("link");
        std::os::unix::fs::symlink("target/out.rs", link).unwrap();
        let lines = |path: &str, request| {
            let reply = fixture.workspace.grep(&fixture.path(path), &request)?;
            let found = reply.matches.iter().map(|found| (found.path.clone(), found.line));
            Ok::<_, Kind>((found.collect::<Vec<_>>(), reply.cut()))
        };
        let at = |path: &'static str, line| (bytes::Bytes::from_static(path.as_bytes()), line);
        let deep = "src/deep/lib.rs";
        assert_eq!(lines(deep, query("needle", 9)).unwrap(), (vec![at(deep, 1), at(deep, 2)], Cut::None));
        assert_eq!(lines(deep, query("needle", 1)).unwrap(), (vec![at(deep, 1)], Cut::Results));
        // What is named is searched, whatever is said of it, also through a link.
        assert_eq!(lines("link", query("needle", 9)).unwrap().0, [at("link", 1)]);
        let of = |include: &str| v1::GrepRequest { include: vec![include.into()], ..query("needle", 9) };
        assert_eq!(lines(deep, of("*.rs")).unwrap().0.len(), 2);
        assert_eq!(lines(deep, of("*.py")).unwrap().0.len(), 0);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, fixture.dir.path().join("fifo"), fifo, 0o600.into(), 0).unwrap();
        assert!(matches!(lines("fifo", query("needle", 9)), Err(Kind::NotAFile(_))));
        assert!(matches!(lines("src/main.rs/", query("needle", 9)), Err(Kind::NotAFile(_))));
        assert!(matches!(lines("absent", query("needle", 9)), Err(Kind::FileUnknown(_))));
    }

    #[test]
    fn what_is_ignored_above_the_start_is_ignored_beneath_it() {
        let fixture = tree();
        fs::write(fixture.dir.path().join("src/left-out.log"), "needle\n").unwrap();
        let found = fixture.workspace.grep(&fixture.path("src"), &query("needle", 9)).unwrap().matches;
        assert!(found.iter().all(|found| found.path != "src/left-out.log"), "{found:?}");
        // What is named is searched, whatever is said of it.
        assert_eq!(
            fixture.workspace.grep(&fixture.path("target"), &query("needle", 9)).unwrap().matches.len(),
            1
        );
    }

    #[test]
    fn what_would_hang_is_not_opened() {
        let fixture = tree();
        let fifo = rustix::fs::FileType::Fifo;
        for name in ["fifo", "src/.gitignore"] {
            let path = fixture.dir.path().join(name);
            rustix::fs::mknodat(rustix::fs::CWD, path, fifo, 0o600.into(), 0).unwrap();
        }
        assert_eq!(grep(&fixture, query("needle", 100)).unwrap().0.len(), 3);
    }
}

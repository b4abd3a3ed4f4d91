//! Reads settings from a TOML document one by one and records requested keys and errors.
//!
//! A setting with an error is read as absent, so that the rest is checked too. If there are errors, no setting is
//! used.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Location, Problem, shown};
use super::ranges::{MAX_FAULTS, MAX_TEXT_BYTES, Range};
use super::section::Section;
use super::spelling;

/// Reads a document.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    text: &'a str,
    known_keys: Vec<String>,
    visited: Vec<Section<'a>>,
    faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, known_keys: Vec::new(), visited: Vec::new(), faults: Vec::new() }
    }

    /// The whole document. Its unknown keys are ignored.
    pub(super) fn top(&self, document: &'a DeTable<'a>) -> Section<'a> {
        Section { path: String::new(), line: None, table: Some(document) }
    }

    /// A table of another program. Its unknown keys are ignored.
    pub(super) fn foreign(&mut self, parent: &Section<'a>, key: &str) -> Section<'a> {
        let path = parent.path_of(key);
        let found = parent.table.and_then(|table| table.get_key_value(key));
        let line = found.map(|(key, _)| self.line_of(key.span().start));
        let table = found.and_then(|(_, value)| match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                self.fault(&path, line, Problem::WrongType { wanted: "a table", found: type_of(other) });
                None
            }
        });
        Section { path, line, table }
    }

    /// A table in which every key must be requested before [`finish`](Self::finish).
    pub(super) fn section(&mut self, parent: &Section<'a>, key: &str) -> Section<'a> {
        let section = self.foreign(parent, key);
        self.known_keys.push(section.path.clone());
        self.visited.push(section.clone());
        section
    }

    /// Reports a possible misspelling of the name of a missing section.
    pub(super) fn suspect(&mut self, parent: &Section<'a>, section: &Section<'a>, name: &str) {
        if section.line.is_some() {
            return;
        }
        for key in parent.table.into_iter().flat_map(DeTable::keys) {
            if spelling::is_very_similar(name, key.get_ref()) {
                let nearest = Some(section.path.clone());
                self.fault_at(parent, key.get_ref(), Problem::Unknown { nearest });
            }
        }
    }

    pub(super) fn boolean(&mut self, section: &Section<'a>, key: &str, default: bool) -> bool {
        let Some(value) = self.value(section, key) else { return default };
        value.get_ref().as_bool().unwrap_or_else(|| {
            self.wrong_type(section, key, value, "true or false");
            default
        })
    }

    pub(super) fn number(&mut self, section: &Section<'a>, key: &str, range: Range) -> u64 {
        let number = self.value(section, key).and_then(|value| self.in_range(section, key, value, range));
        number.unwrap_or(range.default)
    }

    /// One of several words. `None` if it is none of them; then nothing that depends on it can be checked.
    pub(super) fn choice<T: Copy>(
        &mut self,
        section: &Section<'a>,
        key: &str,
        words: &'static [&'static str],
        values: &[T],
    ) -> Option<T> {
        let Some(value) = self.value(section, key) else { return values.first().copied() };
        let text = self.as_text(section, key, value)?;
        let index = words.iter().position(|word| *word == text);
        if index.is_none() {
            self.fault_at(section, key, Problem::NotOneOf { allowed: words, found: shown(text) });
        }
        values.get(index?).copied()
    }

    /// Text of a certain form. An empty one counts as absent.
    pub(super) fn optional<T>(
        &mut self,
        section: &Section<'a>,
        key: &str,
        parse: impl Fn(&str) -> Result<T, Problem>,
    ) -> Option<T> {
        let value = self.value(section, key)?;
        let text = self.as_text(section, key, value).filter(|text| !text.is_empty())?;
        parse(text).map_err(|problem| self.fault_at(section, key, problem)).ok()
    }

    /// Whether a text is absent or empty, which is equivalent.
    pub(super) fn is_absent(&self, section: &Section<'a>, key: &str) -> bool {
        let value = section.table.and_then(|table| table.get(key));
        value.is_none_or(|value| value.get_ref().as_str() == Some(""))
    }

    /// Text of a certain form, with a default. An empty one is an error.
    pub(super) fn text(
        &mut self,
        section: &Section<'a>,
        key: &str,
        default: &str,
        parse: impl Fn(&str) -> Result<String, Problem>,
    ) -> String {
        let given = self.value(section, key).and_then(|value| self.as_text(section, key, value));
        let parsed = match given {
            None => return default.to_owned(),
            Some(text) if text.trim().is_empty() => Err(Problem::Empty),
            Some(text) => parse(text),
        };
        parsed.unwrap_or_else(|problem| {
            self.fault_at(section, key, problem);
            default.to_owned()
        })
    }

    /// Entries of an array. `None` if it is absent. Entries with errors are skipped.
    pub(super) fn entries<T>(
        &mut self,
        section: &Section<'a>,
        key: &str,
        limit: usize,
        parse: impl Fn(&mut Self, &Section<'a>, &str, &'a Spanned<DeValue<'a>>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.value(section, key)?;
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(section, key, value, "an array");
            return None;
        };
        if array.len() > limit {
            self.fault_at(section, key, Problem::TooMany { limit, found: array.len() });
        }
        let entry = |(index, value)| {
            let key = format!("{key}[{index}]");
            parse(self, section, &key, value)
        };
        Some(array.iter().enumerate().take(limit).filter_map(entry).collect())
    }

    pub(super) fn in_range(
        &mut self,
        section: &Section<'a>,
        key: &str,
        value: &'a Spanned<DeValue<'a>>,
        range: Range,
    ) -> Option<u64> {
        let Some(integer) = value.get_ref().as_integer() else {
            self.wrong_type(section, key, value, "a whole number");
            return None;
        };
        // A number that does not fit into 64 bits is out of every range.
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.filter(|number| (range.min..=range.max).contains(number));
        if number.is_none() {
            let Range { min, max, unit, .. } = range;
            let found = shown(&integer.to_string());
            self.fault_of(section, key, value, Problem::OutOfRange { min, max, unit, found });
        }
        number
    }

    pub(super) fn as_text(
        &mut self,
        section: &Section<'a>,
        key: &str,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Option<&'a str> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(section, key, value, "a string");
            return None;
        };
        if text.len() > MAX_TEXT_BYTES {
            let problem = Problem::TooLong { limit: MAX_TEXT_BYTES, found: text.len() };
            self.fault_of(section, key, value, problem);
            return None;
        }
        Some(text)
    }

    /// Reports an error at a key, whether or not it is present.
    pub(super) fn fault_at(&mut self, section: &Section<'a>, key: &str, problem: Problem) {
        let found = section.table.and_then(|table| table.get_key_value(key));
        let line = found.map(|(key, _)| self.line_of(key.span().start)).or(section.line);
        self.fault(&section.path_of(key), line, problem);
    }

    /// Reports an error of a value, which may be on another line than its key.
    pub(super) fn fault_of(
        &mut self,
        section: &Section<'a>,
        key: &str,
        value: &Spanned<DeValue<'a>>,
        problem: Problem,
    ) {
        let line = self.line_of(value.span().start);
        self.fault(&section.path_of(key), Some(line), problem);
    }

    /// Returns all errors in the order of their lines, and all requested keys.
    pub(super) fn finish(mut self) -> (Vec<Fault>, Vec<String>) {
        for section in std::mem::take(&mut self.visited) {
            for key in section.table.into_iter().flat_map(DeTable::keys) {
                let path = section.path_of(key.get_ref());
                if !self.known_keys.contains(&path) && self.faults.len() < MAX_FAULTS {
                    let nearest = spelling::nearest(&self.known_keys, &section.path, key.get_ref());
                    let line = self.line_of(key.span().start);
                    self.fault(&path, Some(line), Problem::Unknown { nearest });
                }
            }
        }
        self.faults.sort_by_key(Fault::line);
        (self.faults, self.known_keys)
    }

    fn value(&mut self, section: &Section<'a>, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known_keys.push(section.path_of(key));
        section.table?.get(key)
    }

    fn wrong_type(
        &mut self,
        section: &Section<'a>,
        key: &str,
        value: &Spanned<DeValue<'a>>,
        wanted: &'static str,
    ) {
        let problem = Problem::WrongType { wanted, found: type_of(value.get_ref()) };
        self.fault_of(section, key, value, problem);
    }

    fn fault(&mut self, path: &str, line: Option<usize>, problem: Problem) {
        self.faults.push(Fault { at: Location::Key { path: path.to_owned(), line }, problem });
    }

    fn line_of(&self, offset: usize) -> usize {
        position(self.text, offset).0
    }
}

/// Line and column of an offset in a text, both counted from 1.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

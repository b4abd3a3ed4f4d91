//! One requirement: a package and the versions of it that are acceptable.

use std::fmt;

use crate::limits;

/// Comparisons of versions (PEP 440), longest first. `===` is not among them: it compares texts, and matches local builds only.
const COMPARISONS: [&str; 7] = ["~=", "==", "!=", "<=", ">=", "<", ">"];

/// A package with extras and versions, such as `uvicorn[standard]>=0.30,<1` (PEP 508). Has one spelling.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    name: String,
    extras: Vec<String>,
    clauses: Vec<String>,
}

impl Requirement {
    /// Reads a requirement. The error is the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > limits::MAX_REQUIREMENT_BYTES {
            return Err(format!("must be at most {} bytes long", limits::MAX_REQUIREMENT_BYTES));
        }
        if text.contains("://") || text.contains('@') {
            return Err("must not name an address; packages come from the index of the operator".into());
        }
        if text.contains(';') {
            return Err("must not have a marker".into());
        }
        let text = text.trim();
        let end = text.find(|char: char| !is_name_char(char)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let name = normalized(name).ok_or("must begin with the name of a package")?;
        let (extras, rest) = extras(rest.trim_start())?;
        Ok(Self { name, extras, clauses: clauses(rest)? })
    }

    /// The normalized name of the package: lower-case letters, digits and single `-`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.extras.is_empty() {
            write!(f, "[{}]", self.extras.join(","))?;
        }
        f.write_str(&self.clauses.join(","))
    }
}

fn is_name_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-')
}

/// A name in its one spelling (PEP 503). `None` if it is not one.
fn normalized(name: &str) -> Option<String> {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_name = is_end(name.as_bytes().first()) && is_end(name.as_bytes().last());
    if !is_name || !name.chars().all(is_name_char) {
        return None;
    }
    let parts = name.split(['.', '_', '-']).filter(|part| !part.is_empty());
    Some(parts.collect::<Vec<_>>().join("-").to_ascii_lowercase())
}

/// The extras in brackets, and what follows them.
fn extras(text: &str) -> Result<(Vec<String>, &str), String> {
    let Some(text) = text.strip_prefix('[') else { return Ok((Vec::new(), text)) };
    let (inner, rest) = text.split_once(']').ok_or("must close its brackets")?;
    let extras: Option<Vec<String>> = inner.split(',').map(|extra| normalized(extra.trim())).collect();
    let mut extras = extras.ok_or("must have names of extras in its brackets")?;
    if extras.len() > limits::MAX_EXTRAS {
        return Err(format!("must have at most {} extras", limits::MAX_EXTRAS));
    }
    extras.sort();
    extras.dedup();
    Ok((extras, rest))
}

/// The acceptable versions. None accepts each.
fn clauses(text: &str) -> Result<Vec<String>, String> {
    let text = text.trim();
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text).trim();
    if inner.is_empty() {
        return if text.is_empty() {
            Ok(Vec::new())
        } else {
            Err("must have versions in its brackets".into())
        };
    }
    let clauses: Option<Vec<String>> = inner.split(',').map(|clause| normal_clause(clause.trim())).collect();
    let mut clauses =
        clauses.ok_or("must be a name, perhaps with extras, and versions such as ==2.* or >=1.2,<2")?;
    if clauses.len() > limits::MAX_VERSION_CLAUSES {
        return Err(format!("must compare with at most {} versions", limits::MAX_VERSION_CLAUSES));
    }
    clauses.sort();
    clauses.dedup();
    Ok(clauses)
}

fn normal_clause(clause: &str) -> Option<String> {
    let comparison = COMPARISONS.iter().find(|comparison| clause.starts_with(**comparison))?;
    let version = clause[comparison.len()..].trim();
    // The beginning, so that no version is an option of a program.
    let is_version = version.starts_with(|char: char| char.is_ascii_alphanumeric())
        && version.chars().all(|char| is_name_char(char) || matches!(char, '!' | '+' | '*'));
    is_version.then(|| format!("{comparison}{version}").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        Requirement::parse(text).map(|requirement| requirement.to_string())
    }

    #[test]
    fn a_requirement_has_one_spelling() {
        for (text, expected) in [
            ("numpy", "numpy"),
            ("  Ruamel_.yaml ", "ruamel-yaml"),
            ("numpy == 2.*", "numpy==2.*"),
            ("numpy <3, >= 2", "numpy<3,>=2"),
            ("numpy(>=2,<3)", "numpy<3,>=2"),
            ("uvicorn[Standard , a_b]>=0.30", "uvicorn[a-b,standard]>=0.30"),
            ("torch==2.9.0+CPU", "torch==2.9.0+cpu"),
            ("a~=1!2.3rc1,!=1!2.4,!=1!2.4", "a!=1!2.4,~=1!2.3rc1"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_requirement_is_rejected() {
        let long = format!("a=={}", "1".repeat(limits::MAX_REQUIREMENT_BYTES));
        let extras = format!("a[{}]", ["b"; limits::MAX_EXTRAS + 1].join(","));
        for (text, problem) in [
            ("", "the name of a package"),
            ("--index-url=x", "the name of a package"),
            ("-r requirements.txt", "the name of a package"),
            ("./wheel.whl", "the name of a package"),
            ("/etc/passwd", "the name of a package"),
            ("..", "the name of a package"),
            ("a-", "the name of a package"),
            ("ä", "the name of a package"),
            ("a/b", "must be a name"),
            ("a b", "must be a name"),
            ("a --pre", "must be a name"),
            ("a\n--pre", "must be a name"),
            ("a 1.0", "must be a name"),
            ("a===1.0", "must be a name"),
            ("a==", "must be a name"),
            ("a==--x", "must be a name"),
            ("a==1,", "must be a name"),
            ("a=1", "must be a name"),
            ("a()", "versions in its brackets"),
            ("a[]", "names of extras"),
            ("a[b", "close its brackets"),
            ("a[--b]", "names of extras"),
            ("https://files.example/a.whl", "an address"),
            ("a @ file:///etc/passwd", "an address"),
            ("git+ssh://git.example/a", "an address"),
            ("a; python_version < '4'", "a marker"),
            (&long, "at most 256 bytes"),
            (&extras, "at most 8 extras"),
        ] {
            let found = shown(text).unwrap_err();
            assert!(found.contains(problem), "{text:?}: {found}");
        }
    }
}

//! Directories of the daemon's machine that requests may name.
//!
//! A request has only the name. The operator's settings say which path it is, and for which projects.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::{ProjectName, limits};

/// Name of a directory in the operator's settings: 1 to 63 lower-case letters, digits and `-._`, beginning with a letter or
/// digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DirectoryName(String);

impl DirectoryName {
    /// How a request distinguishes a directory from other repositories. No address of a git server, no `owner/name` and no
    /// package begins like this.
    pub const PREFIX: &str = "dir:";

    /// Reads a name, without the prefix. The error is the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let max = limits::MAX_DIRECTORY_NAME_BYTES;
        let is_first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_char = |byte: u8| is_first(byte) || b"-._".contains(&byte);
        let is_name = (1..=max).contains(&text.len())
            && text.bytes().all(is_char)
            && text.bytes().next().is_some_and(is_first);
        let fault = || {
            format!(
                "must name a directory by 1 to {max} lower-case letters, digits and -._, beginning with a letter or digit"
            )
        };
        if is_name { Ok(Self(text.to_owned())) } else { Err(fault()) }
    }
}

impl DirectoryName {
    /// The name, without the prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DirectoryName {
    /// With the prefix, as a request has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0)
    }
}

/// The directories that the operator allows, and the projects that may use them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedDirectories {
    paths: Vec<(DirectoryName, PathBuf)>,
    projects: Vec<ProjectName>,
}

impl AllowedDirectories {
    /// Reads `name=/absolute/path`, separated by commas. The error is the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut paths: Vec<(DirectoryName, PathBuf)> = Vec::new();
        for (at, pair) in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()).enumerate() {
            let fault = |problem: &str| format!("{problem}, at pair {}", at + 1);
            let form = "must be pairs such as name=/absolute/path, separated by commas";
            let (name, path) = pair.split_once('=').ok_or_else(|| fault(form))?;
            let name = DirectoryName::parse(name.trim()).map_err(|problem| fault(&problem))?;
            let path = Path::new(path.trim());
            let is_plain = path.components().all(|part| part != Component::ParentDir);
            if !path.is_absolute() || !is_plain {
                return Err(fault("must have an absolute path without `..`"));
            }
            if paths.iter().any(|(known, _)| *known == name) {
                return Err(fault("must have each name once"));
            }
            paths.push((name, path.to_owned()));
        }
        match paths.len() <= limits::MAX_DIRECTORIES {
            true => Ok(Self { paths, projects: Vec::new() }),
            false => Err(format!("must have at most {} directories", limits::MAX_DIRECTORIES)),
        }
    }

    /// Lets only these projects use the directories.
    pub fn only_for(self, projects: Vec<ProjectName>) -> Self {
        Self { projects, ..self }
    }

    /// Path of a directory. `None` if there is none with this name, or not for this project.
    pub fn path(&self, name: &DirectoryName, project: &ProjectName) -> Option<&Path> {
        let is_allowed = self.projects.contains(project);
        self.paths.iter().find(|(known, _)| is_allowed && known == name).map(|(_, path)| path.as_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_found_by_its_name_and_project() {
        let name = |text: &str| DirectoryName::parse(text).unwrap();
        let project = |text: &str| text.parse::<ProjectName>().unwrap();
        let allowed = AllowedDirectories::parse("app=/srv/app, docs=/srv/the docs").unwrap();
        assert_eq!(allowed.path(&name("app"), &project("lab")), None, "no project is allowed yet");
        let allowed = allowed.only_for(vec![project("lab")]);
        assert_eq!(allowed.path(&name("app"), &project("lab")), Some(Path::new("/srv/app")));
        assert_eq!(allowed.path(&name("docs"), &project("lab")), Some(Path::new("/srv/the docs")));
        assert_eq!(allowed.path(&name("ap"), &project("lab")), None);
        assert_eq!(allowed.path(&name("app"), &project("other")), None);
        assert_eq!(name("app").to_string(), "dir:app");
    }

    #[test]
    fn an_invalid_pair_is_named() {
        let many: Vec<String> = (0..=limits::MAX_DIRECTORIES).map(|at| format!("d{at}=/d")).collect();
        for bad in [
            "app",
            "app=",
            "app=srv",
            "app=./srv",
            "app=/srv/../etc",
            "=/srv",
            "App=/srv",
            "-a=/srv",
            "a/b=/srv",
            "a=/x,a=/y",
            &many.join(","),
        ] {
            assert!(AllowedDirectories::parse(bad).is_err(), "{bad}");
        }
        let second = AllowedDirectories::parse("a=/x,b").unwrap_err();
        assert!(second.ends_with("at pair 2"), "{second}");
        assert!(AllowedDirectories::parse("").is_ok());
    }
}

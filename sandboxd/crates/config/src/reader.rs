//! Reads settings one by one, and records the source of each and what is wrong with it.

use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::parse;
use sandboxd_model::{EngineAddress, Upstream};

/// Prefix of our settings.
const PREFIX: &str = "SANDBOXD_";

/// Engine sockets below the home directory. They are tried after [`SYSTEM_SOCKET`] if no setting names one.
const HOME_SOCKETS: [&str; 4] = [
    ".docker/run/docker.sock",
    ".orbstack/run/docker.sock",
    ".colima/default/docker.sock",
    ".rd/docker.sock",
];
const SYSTEM_SOCKET: &str = "/var/run/docker.sock";

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Name of the variable.
    pub name: String,
    /// What is wrong with its value.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.problem)
    }
}

/// The effective value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Name of the variable.
    pub name: String,
    /// Its value; never a secret's.
    pub value: String,
    /// `environment`, `default`, `not set` or `found`.
    pub source: String,
}

/// All effective settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// One for each setting.
    pub rows: Vec<Row>,
    /// Variables with our prefix that are not settings.
    pub unknown: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |column: fn(&Row) -> &str| self.rows.iter().map(|row| column(row).len()).max().unwrap_or(0);
        let (names, values) = (width(|row| &row.name), width(|row| &row.value));
        for row in &self.rows {
            writeln!(f, "{:names$}  {:values$}  {}", row.name, row.value, row.source)?;
        }
        for name in &self.unknown {
            writeln!(f, "{name} is not a setting of this version and is ignored")?;
        }
        Ok(())
    }
}

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads settings.
pub(super) struct Reader<'a> {
    env: Env<'a>,
    report: Report,
    faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(env: Env<'a>) -> Self {
        Self { env, report: Report::default(), faults: Vec::new() }
    }

    /// A setting with a default.
    pub(super) fn setting<T>(
        &mut self,
        name: &'static str,
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.first_of(&[name], default, parse)
    }

    /// A setting with several names. The first one that is set applies.
    pub(super) fn first_of<T>(
        &mut self,
        names: &[&'static str],
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let found = names.iter().find_map(|name| Some((*name, self.value(name)?)));
        let (name, value, source) = match found {
            Some((name, value)) => (name, value, "environment"),
            None => (names[0], default.to_owned(), "default"),
        };
        self.row(name, &value, source);
        match parse(&value) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.fault(name, problem);
                None
            }
        }
    }

    /// A setting that may be absent.
    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        if self.value(name).is_none() {
            self.row(name, "-", "not set");
            return None;
        }
        self.setting(name, "", parse)
    }

    /// A setting that may be absent, and whose value may have a secret if it is not valid. Then the value is not shown.
    pub(super) fn guarded<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        match self.hide_if_invalid(name, &parse) {
            true => None,
            false => self.optional(name, parse),
        }
    }

    /// As [`Self::guarded`], with a default.
    pub(super) fn guarded_setting<T>(
        &mut self,
        name: &'static str,
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        match self.hide_if_invalid(name, &parse) {
            true => None,
            false => self.setting(name, default, parse),
        }
    }

    /// Reports a value that is not valid, without showing it. Returns whether there is one.
    fn hide_if_invalid<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> bool {
        let Some(Err(problem)) = self.value(name).map(|value| parse(&value)) else { return false };
        self.row(name, "(not valid)", "environment");
        self.fault(name, problem);
        true
    }

    /// A setting whose value is never shown.
    pub(super) fn secret(&mut self, name: &'static str) -> Option<SecretString> {
        let value = self.value(name);
        match &value {
            Some(value) => self.row(name, &format!("({} characters)", value.chars().count()), "environment"),
            None => self.row(name, "-", "not set"),
        }
        value.map(SecretString::from)
    }

    /// A proxy. Its user name and password are never shown.
    pub(super) fn upstream(&mut self, names: &[&'static str]) -> Option<Upstream> {
        let found = names.iter().find_map(|name| Some((*name, self.value(name)?)));
        let Some((name, value)) = found else {
            self.row(names[0], "-", "not set");
            return None;
        };
        match Upstream::parse(&value) {
            Ok(upstream) => {
                self.row(name, &upstream.to_string(), "environment");
                Some(upstream)
            }
            Err(problem) => {
                self.row(name, "(not a proxy)", "environment");
                self.fault(name, problem);
                None
            }
        }
    }

    /// Address of the engine: the configured one, or else the first socket that exists.
    pub(super) fn engine(&mut self) -> Option<EngineAddress> {
        if let Some(path) = self.value("SANDBOXD_DOCKER_SOCKET") {
            self.row("SANDBOXD_DOCKER_SOCKET", &path, "environment");
            let path = path.strip_prefix("unix://").unwrap_or(&path);
            return Some(EngineAddress::Unix(path.into()));
        }
        if self.value("DOCKER_HOST").is_some() {
            return self.setting("DOCKER_HOST", "", parse::docker_host);
        }
        let home = self.value("HOME").map(PathBuf::from);
        let candidates = home.iter().flat_map(|home| HOME_SOCKETS.map(|socket| home.join(socket)));
        let mut candidates = std::iter::once(PathBuf::from(SYSTEM_SOCKET)).chain(candidates);
        let found = candidates.find(|path| path.exists());
        let source = if found.is_some() { "found" } else { "default" };
        let path = found.unwrap_or_else(|| Path::new(SYSTEM_SOCKET).to_owned());
        self.row("SANDBOXD_DOCKER_SOCKET", &path.to_string_lossy(), source);
        Some(EngineAddress::Unix(path))
    }

    /// Number of faults so far.
    pub(super) fn faults(&self) -> usize {
        self.faults.len()
    }

    pub(super) fn fault(&mut self, name: &str, problem: impl Into<String>) {
        self.faults.push(Fault { name: name.into(), problem: problem.into() });
    }

    pub(super) fn finish(mut self, names: Vec<String>) -> (Vec<Fault>, Report) {
        let is_known = |name: &String| {
            let listed = self.report.rows.iter().any(|row| row.name == *name);
            listed || self.faults.iter().any(|fault| fault.name == *name)
        };
        let mut unknown: Vec<String> =
            names.into_iter().filter(|name| name.starts_with(PREFIX) && !is_known(name)).collect();
        unknown.sort();
        self.report.unknown = unknown;
        (self.faults, self.report)
    }

    fn value(&self, name: &str) -> Option<String> {
        let value = (self.env)(name)?.trim().to_owned();
        (!value.is_empty()).then_some(value)
    }

    fn row(&mut self, name: &str, value: &str, source: &str) {
        self.report.rows.push(Row { name: name.into(), value: value.into(), source: source.into() });
    }
}

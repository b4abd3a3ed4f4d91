//! The version of the package that a server is started from.
//!
//! Programs such as `npx` and `uvx` download the newest version of a package at each start, unless the arguments name
//! one. So the code behind a server could change from one start to the next. A server is therefore started with an
//! exact version: that of its arguments, or the one that was current when it was started first.

use super::downloaders::{Found, find};
use super::unpinned::{Registry, Unpinned};

/// A package among the arguments of a program, without an exact version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Floating {
    /// Position of the package in the arguments.
    position: usize,
    /// Prefix of the package in its argument, such as `--package=`.
    prefix: String,
    /// Name of the package, without a version.
    pub(super) name: String,
    /// The package as the arguments name it, without the prefix.
    pub(super) given: String,
    pub(super) registry: Registry,
    /// Whether the registry can be asked which version is meant.
    pub(super) can_resolve: bool,
}

impl Floating {
    /// The arguments with this version of the package.
    pub(super) fn with_version(&self, args: &[String], version: &str) -> Vec<String> {
        let mut args = args.to_vec();
        if let Some(argument) = args.get_mut(self.position) {
            *argument = format!("{}{}", self.prefix, self.named_with(version));
        }
        args
    }

    /// The error for it.
    pub(super) fn error(&self) -> Unpinned {
        Unpinned::NoVersion { package: self.quoted(), example: self.example() }
    }

    /// The error if the registry did not return a version.
    pub(super) fn not_found(&self, why: String) -> Unpinned {
        Unpinned::NotFound { package: self.quoted(), example: self.example(), why }
    }

    fn quoted(&self) -> String {
        format!("`{}`", self.given)
    }

    fn example(&self) -> String {
        format!("`{}`", self.named_with("1.2.3"))
    }

    fn named_with(&self, version: &str) -> String {
        let separator = match self.registry {
            Registry::Npm => "@",
            Registry::Python => "==",
        };
        format!("{}{separator}{version}", self.name)
    }
}

/// Finds the package that a program downloads, if its version is not exact. A known program that is called in an
/// unknown way is an error.
pub(super) fn floating(cmd: &str, args: &[String]) -> Result<Option<Floating>, Unpinned> {
    let Some(found) = find(cmd, args)? else { return Ok(None) };
    let packages = packages(&found, args)?;
    let mut inexact = packages.into_iter().filter_map(|package| package.floating(found.downloader.registry));
    let Some((first, is_main)) = inexact.next() else { return Ok(None) };
    // One version can be remembered.
    match inexact.next() {
        None if is_main => Ok(Some(first)),
        other => Err(other.filter(|_| is_main).map_or(first, |(second, _)| second).error()),
    }
}

/// A package in the arguments.
struct Package {
    position: usize,
    /// Its prefix in its argument, such as `--package=`.
    prefix: String,
    given: String,
    /// Whether it is not only installed beside another one.
    is_main: bool,
}

impl Package {
    /// The package if its version is not exact, and whether it is a main one.
    fn floating(self, registry: Registry) -> Option<(Floating, bool)> {
        let Self { position, prefix, given, is_main } = self;
        let name = name_of(&given, registry);
        let version = given.get(name.len()..).unwrap_or_default();
        if is_exact(version, registry) || is_local(&given) {
            return None;
        }
        let can_resolve = match registry {
            // After the colon comes another package or a location.
            Registry::Npm => is_npm_name(&name) && !version.contains(':'),
            Registry::Python => is_python_name(&name),
        };
        Some((Floating { position, prefix, name, given, registry, can_resolve }, is_main))
    }
}

/// The packages in the arguments of a program that downloads them.
fn packages(found: &Found, args: &[String]) -> Result<Vec<Package>, Unpinned> {
    let downloader = found.downloader;
    let (mut packages, mut at) = (Vec::new(), found.skip);
    while let Some(argument) = args.get(at) {
        if !argument.starts_with('-') || argument == "--" {
            break;
        }
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (argument.as_str(), None),
        };
        let is_main = downloader.main.contains(&option);
        if is_main || downloader.beside.contains(&option) {
            let (position, prefix, given) = match value {
                Some(value) => (at, format!("{option}="), value.to_owned()),
                None => (at + 1, String::new(), args.get(at + 1).cloned().unwrap_or_default()),
            };
            packages.push(Package { position, prefix, given, is_main });
        } else if !downloader.with_value.contains(&option) && !downloader.flags.contains(&option) {
            return Err(Unpinned::Unclear {
                what: format!("the option `{option}`"),
                program: format!("`{}`", found.program),
            });
        }
        at += if value.is_some() || downloader.flags.contains(&option) { 1 } else { 2 };
    }
    at += usize::from(args.get(at).is_some_and(|argument| argument == "--"));
    if let Some(given) = args.get(at).filter(|_| !packages.iter().any(|package| package.is_main)) {
        packages.push(Package { position: at, prefix: String::new(), given: given.clone(), is_main: true });
    }
    Ok(packages)
}

/// Name of a package, without its version.
fn name_of(package: &str, registry: Registry) -> String {
    let end = match registry {
        // A scope begins with an at sign too.
        Registry::Npm => package.get(1..).and_then(|rest| rest.find('@')).map(|at| at + 1),
        Registry::Python => package.find(['@', '=', '<', '>', '~', '!', ' ']),
    };
    package[..end.unwrap_or(package.len())].to_owned()
}

/// Whether what follows a package's name is an exact version, such as `@1.2.3` or `==1.2.3`.
fn is_exact(version: &str, registry: Registry) -> bool {
    match registry {
        Registry::Npm => version.strip_prefix('@').is_some_and(is_npm_version),
        Registry::Python => {
            version.strip_prefix("==").or(version.strip_prefix('@')).is_some_and(is_python_version)
        }
    }
}

/// Whether the text is an exact version of npm. It takes `1.0` for the newest `1.0.x`.
fn is_npm_version(version: &str) -> bool {
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = numbers.split('.').collect();
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.len() >= 3 && numbers.iter().all(is_number)
}

/// Whether the text is one version of PEP 440, such as `2.0`, `1.2.0rc1` or `1.0.post1`.
fn is_python_version(version: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".+-_!".contains(&byte);
    version.starts_with(|first: char| first.is_ascii_digit()) && version.bytes().all(is_allowed)
}

/// Whether the package is a file or a folder of the sandbox, which does not change by itself.
fn is_local(package: &str) -> bool {
    package.starts_with(['.', '/'])
}

/// Whether the text is the name of a package in npm's registry.
fn is_npm_name(name: &str) -> bool {
    let is_valid = |part: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !part.is_empty() && part.len() <= 128 && !part.starts_with(['.', '-']) && part.bytes().all(is_allowed)
    };
    match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| is_valid(scope) && is_valid(name)),
        None => is_valid(name),
    }
}

/// Whether the text is the name of a package in the Python Package Index, with or without extras: `name[extra]`.
fn is_python_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_valid = |part: &str| !part.is_empty() && part.len() <= 128 && part.bytes().all(is_allowed);
    match name.split_once('[') {
        Some((name, extras)) => {
            is_valid(name) && extras.strip_suffix(']').is_some_and(|extras| extras.split(',').all(is_valid))
        }
        None => is_valid(name),
    }
}

/// Whether the text is an exact version, as a registry reports it.
pub(super) fn is_version(text: &str, registry: Registry) -> bool {
    let is_exact = match registry {
        Registry::Npm => is_npm_version(text),
        Registry::Python => is_python_version(text),
    };
    text.len() <= 64
        && is_exact
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+_!".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn pinned(command: &str) -> Option<String> {
        let all = args(command);
        let found = floating(&all[0], &all[1..]).unwrap()?;
        Some(found.with_version(&all[1..], "1.2.3").join(" "))
    }

    #[test]
    fn a_package_gets_its_version() {
        let cases = [
            (
                "npx -y @modelcontextprotocol/server-filesystem .",
                "-y @modelcontextprotocol/server-filesystem@1.2.3 .",
            ),
            ("/usr/bin/npx some-server@latest", "some-server@1.2.3"),
            ("npx some-server@^1.0", "some-server@1.2.3"),
            ("npx -y --package=@a/b@next c", "-y --package=@a/b@1.2.3 c"),
            ("npx -p a b", "-p a@1.2.3 b"),
            ("npm exec a", "exec a@1.2.3"),
            ("uvx mcp-server-time --local", "mcp-server-time==1.2.3 --local"),
            ("uvx --from a>=1 b", "--from a==1.2.3 b"),
            ("uvx a[x,y]", "a[x,y]==1.2.3"),
            ("pipx run a", "run a==1.2.3"),
            ("uv tool run a@latest", "tool run a==1.2.3"),
            ("npx --prefix /opt/x -y a", "--prefix /opt/x -y a@1.2.3"),
            ("uvx -p 3.12 a", "-p 3.12 a==1.2.3"),
            ("uvx --directory /srv a", "--directory /srv a==1.2.3"),
            ("uvx --with b==1 a", "--with b==1 a==1.2.3"),
            ("bun x a", "x a@1.2.3"),
            ("pnpx a", "a@1.2.3"),
            ("npx -- a", "-- a@1.2.3"),
        ];
        for (given, expected) in cases {
            assert_eq!(pinned(given).as_deref(), Some(expected), "{given}");
        }
    }

    #[test]
    fn an_exact_version_stays() {
        for given in [
            "npx -y @modelcontextprotocol/server-filesystem@2025.8.21 .",
            "npx a@1.2.3-beta.1",
            "uvx a==1.2.3",
            "uvx a==2.0",
            "uvx a@1.2.3",
            "uvx --from a==1.0.0 b",
            "uvx a@2.0",
            "uvx a==1.2.0rc1",
            "uvx a==1.0.post1",
            "npx -p a@1.2.3 -p b@1.2.3 c",
            "sh -c server.py",
            "env KEY=x node server.js",
            "npx ./server",
            "npx",
            "node server.js",
            "uv run server.py",
            "npm start",
        ] {
            assert_eq!(pinned(given), None, "{given}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let error = |command: &str| {
            let all = args(command);
            floating(&all[0], &all[1..]).unwrap_err().to_string()
        };
        assert!(error("npx -p a@1.2.3 -p b -p c d").contains("`c` has no exact version"));
        assert!(error("uvx --with b a==1.2.3").contains("`b` has no exact version"));
        assert!(error("uvx --with b a").contains("`b` has no exact version"));
        assert!(error("npx --unknown x a").contains("the option `--unknown` is not understood"));
        assert!(error("uvx --with-requirements file a").contains("`--with-requirements`"));
        for command in
            ["npm --yes exec a", "uv --quiet tool run a", "env npx a", "sh -c npx\u{a0}a", "bash -lc 'npx a'"]
        {
            assert!(error(command).contains("is not understood"), "{command}");
        }
    }

    #[test]
    fn the_error_shows_how_to_write_it() {
        let error = floating("npx", &args("-y @a/b .")).unwrap().unwrap().error().to_string();
        assert!(error.contains("`@a/b` has no exact version") && error.contains("`@a/b@1.2.3`"), "{error}");
    }

    #[test]
    fn only_names_are_looked_up() {
        let can_resolve = |package: &str| floating("npx", &args(package)).unwrap().unwrap().can_resolve;
        assert!(can_resolve("a") && can_resolve("@a/b.c@latest"));
        for package in ["github:a/b", "https://a.example/b.tgz", "a;b", "@a/b/c", "a@npm:b@1.0.0"] {
            assert!(!can_resolve(package), "{package}");
        }
        let can_resolve = |package: &str| floating("uvx", &args(package)).unwrap().unwrap().can_resolve;
        assert!(can_resolve("a") && can_resolve("a[b]>=1") && !can_resolve("git+https://a.example/b"));
        for (text, npm, python) in [
            ("1.2.3", true, true),
            ("2.0", false, true),
            ("1.2.3-rc.1", true, true),
            ("1.2.0rc1", false, true),
            ("latest", false, false),
            ("1.2.3;x", false, false),
        ] {
            let found = (is_version(text, Registry::Npm), is_version(text, Registry::Python));
            assert_eq!(found, (npm, python), "{text}");
        }
    }
}

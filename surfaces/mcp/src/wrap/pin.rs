//! The version of the package that a server is started from.
//!
//! Programs such as `npx` and `uvx` download the newest version of a package at each start, unless the arguments name
//! one. So the code behind a server could change from one start to the next. A server is therefore started with an
//! exact version: that of its arguments, or the one that was current when it was started first.

/// Options of `npx` and `uvx` that have a value.
const WITH_VALUE: [&str; 8] =
    ["-c", "--call", "-w", "--workspace", "--python", "-p", "--with", "--index-url"];

/// Why a version cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{package} has no exact version, so each start could run other code: write {example}, or allow it explicitly"
)]
pub struct Unpinned {
    /// The package as the arguments name it.
    pub package: String,
    /// How the package is named with a version.
    pub example: String,
}

/// Registry of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registry {
    /// That of npm.
    Npm,
    /// The Python Package Index.
    Python,
}

/// A package among the arguments of a program, without an exact version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Floating {
    /// Position of the package in the arguments.
    position: usize,
    /// What precedes the package in its argument, such as `--package=`.
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
        Unpinned { package: format!("`{}`", self.given), example: format!("`{}`", self.named_with("1.2.3")) }
    }

    fn named_with(&self, version: &str) -> String {
        let separator = match self.registry {
            Registry::Npm => "@",
            Registry::Python => "==",
        };
        format!("{}{separator}{version}", self.name)
    }
}

/// Finds the package that a program downloads, if its version is not exact.
pub(super) fn floating(cmd: &str, args: &[String]) -> Option<Floating> {
    let program = cmd.rsplit('/').next().unwrap_or(cmd);
    let (registry, skip) = match (program, args.first().map(String::as_str)) {
        ("npx" | "bunx", _) => (Registry::Npm, 0),
        ("npm" | "pnpm", Some("exec" | "x" | "dlx")) | ("yarn", Some("dlx")) => (Registry::Npm, 1),
        ("uvx", _) => (Registry::Python, 0),
        ("pipx", Some("run")) => (Registry::Python, 1),
        ("uv", Some("tool")) if args.get(1).is_some_and(|verb| verb == "run") => (Registry::Python, 2),
        _ => return None,
    };
    let (position, prefix, given) = package(args, skip)?;
    let name = name_of(&given, registry);
    if is_exact(given.get(name.len()..).unwrap_or_default()) || is_local(&given) {
        return None;
    }
    let can_resolve = match registry {
        Registry::Npm => is_npm_name(&name),
        Registry::Python => is_python_name(&name),
    };
    Some(Floating { position, prefix, name, given, registry, can_resolve })
}

/// The argument that names the package: its position, what precedes the package in it, and the package.
fn package(args: &[String], skip: usize) -> Option<(usize, String, String)> {
    let mut at = skip;
    let mut first = None;
    while let Some(argument) = args.get(at) {
        for option in ["--package", "-p", "--from", "--spec"] {
            if argument == option {
                return Some((at + 1, String::new(), args.get(at + 1)?.clone()));
            }
            if let Some(package) = argument.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')) {
                return Some((at, format!("{option}="), package.to_owned()));
            }
        }
        if WITH_VALUE.contains(&argument.as_str()) {
            at += 2;
            continue;
        }
        if !argument.starts_with('-') {
            first = Some((at, String::new(), argument.clone()));
            break;
        }
        at += 1;
    }
    first
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
fn is_exact(version: &str) -> bool {
    // `==1.0` is exact. `@1.0` is not, because npm takes it for the newest `1.0.x`.
    let (version, min_numbers) = match version.strip_prefix("==") {
        Some(version) => (version, 1),
        None => (version.strip_prefix('@').unwrap_or_default(), 3),
    };
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = numbers.split('.').collect();
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.len() >= min_numbers && numbers.iter().all(is_number)
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
pub(super) fn is_version(text: &str) -> bool {
    text.len() <= 64
        && is_exact(&format!("=={text}"))
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn pinned(command: &str) -> Option<String> {
        let all = args(command);
        let found = floating(&all[0], &all[1..])?;
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
    fn the_error_shows_how_to_write_it() {
        let error = floating("npx", &args("-y @a/b .")).unwrap().error().to_string();
        assert!(error.contains("`@a/b` has no exact version") && error.contains("`@a/b@1.2.3`"), "{error}");
    }

    #[test]
    fn only_names_are_looked_up() {
        let can_resolve = |package: &str| floating("npx", &args(package)).unwrap().can_resolve;
        assert!(can_resolve("a") && can_resolve("@a/b.c@latest"));
        for package in ["github:a/b", "https://a.example/b.tgz", "a;b", "@a/b/c"] {
            assert!(!can_resolve(package), "{package}");
        }
        let can_resolve = |package: &str| floating("uvx", &args(package)).unwrap().can_resolve;
        assert!(can_resolve("a") && can_resolve("a[b]>=1") && !can_resolve("git+https://a.example/b"));
        assert!(
            is_version("1.2.3")
                && is_version("2.0")
                && is_version("1.2.3-rc.1")
                && !is_version("latest")
                && !is_version("1.2.3;x")
        );
    }
}

//! Programs that download packages and run them, and how their arguments name the packages.

use super::unpinned::{Registry, Unpinned};

/// A program that downloads packages.
pub(super) struct Downloader {
    pub(super) registry: Registry,
    /// Options whose value is the package that is run.
    pub(super) main: &'static [&'static str],
    /// Options whose value is a package that is installed beside it.
    pub(super) beside: &'static [&'static str],
    /// Other options with a value.
    pub(super) with_value: &'static [&'static str],
    /// Options without a value.
    pub(super) flags: &'static [&'static str],
}

/// `npx`, `npm exec`, `pnpm dlx`, `yarn dlx` and `bunx`.
const NPM: Downloader = Downloader {
    registry: Registry::Npm,
    main: &["-p", "--package"],
    beside: &[],
    with_value: &[
        "-c",
        "--call",
        "-w",
        "--workspace",
        "--cache",
        "--prefix",
        "--registry",
        "--loglevel",
        "--userconfig",
    ],
    flags: &[
        "-y",
        "--yes",
        "--no",
        "--no-install",
        "-q",
        "--quiet",
        "-s",
        "--silent",
        "--offline",
        "--prefer-offline",
        "--prefer-online",
        "--ignore-scripts",
        "--bun",
        "--verbose",
    ],
};

/// `uvx` and `uv tool run`.
const UV: Downloader = Downloader {
    registry: Registry::Python,
    main: &["--from"],
    beside: &["-w", "--with"],
    with_value: &[
        "-p",
        "--python",
        "--directory",
        "--project",
        "-i",
        "--index-url",
        "--default-index",
        "--index",
        "--extra-index-url",
        "--cache-dir",
        "--config-file",
        "--color",
        "--env-file",
        "--index-strategy",
        "--link-mode",
        "--resolution",
        "--prerelease",
        "--exclude-newer",
    ],
    flags: &[
        "--isolated",
        "-n",
        "--no-cache",
        "--offline",
        "--native-tls",
        "-q",
        "--quiet",
        "-v",
        "--verbose",
        "--no-progress",
        "--no-config",
        "--refresh",
        "--managed-python",
        "--no-managed-python",
        "-U",
        "--upgrade",
    ],
};

/// `pipx run`.
const PIPX: Downloader = Downloader {
    registry: Registry::Python,
    main: &["--spec"],
    beside: &["--with"],
    with_value: &["--python", "--pip-args", "-i", "--index-url"],
    flags: &[
        "--no-cache",
        "--verbose",
        "-v",
        "-q",
        "--quiet",
        "--system-site-packages",
        "--fetch-missing-python",
    ],
};

/// Names of the programs, as they may be in the arguments of a shell.
const NAMES: [&str; 9] = ["npx", "pnpx", "bunx", "uvx", "pipx", "npm", "pnpm", "yarn", "uv"];

/// Programs that run another one.
const RUNNERS: [&str; 8] = ["env", "sh", "bash", "dash", "zsh", "timeout", "nice", "exec"];

/// A program that downloads packages, among the arguments of a server.
pub(super) struct Found {
    pub(super) downloader: &'static Downloader,
    /// Its name.
    pub(super) program: String,
    /// Number of arguments before its options.
    pub(super) skip: usize,
}

/// Finds out whether a program downloads packages.
pub(super) fn find(cmd: &str, args: &[String]) -> Result<Option<Found>, Unpinned> {
    let program = cmd.rsplit('/').next().unwrap_or(cmd);
    let verbs: Vec<&str> = args.iter().map(String::as_str).take(2).collect();
    let (downloader, skip) = match (program, verbs.as_slice()) {
        ("npx" | "pnpx" | "bunx", _) => (&NPM, 0),
        ("npm" | "pnpm" | "yarn" | "bun", ["exec" | "x" | "dlx", ..]) => (&NPM, 1),
        ("uvx", _) => (&UV, 0),
        ("uv", ["tool", "run"]) => (&UV, 2),
        ("pipx", ["run", ..]) => (&PIPX, 1),
        ("npm" | "pnpm" | "yarn" | "bun" | "uv" | "pipx", [option, ..]) if option.starts_with('-') => {
            return Err(unclear(format!("`{option}` before the command"), program));
        }
        (runner, _) if RUNNERS.contains(&runner) => return named_in(runner, args).map_or(Ok(None), Err),
        _ => return Ok(None),
    };
    Ok(Some(Found { downloader, program: program.to_owned(), skip }))
}

/// The error if the arguments of a shell or a similar program name a program that downloads packages.
fn named_in(runner: &str, args: &[String]) -> Option<Unpinned> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let mut words = args.iter().flat_map(|argument| argument.split(|character| !is_part(character)));
    let name = words.find(|word| NAMES.contains(word))?;
    Some(unclear(format!("`{name}` in the arguments of `{runner}`"), name))
}

fn unclear(what: String, program: &str) -> Unpinned {
    Unpinned::Unclear { what, program: format!("`{program}`") }
}

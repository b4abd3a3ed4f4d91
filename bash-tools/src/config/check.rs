//! Reads the section's keys and checks rules that involve several of them.

use std::time::Duration;

use sandbox_api::limits::{MAX_NETWORK_RULES, RUNTIMES};
use toml::de::DeTable;

use super::fault::{Fault, Location, Problem};
use super::forms;
use super::ranges::{self, Range};
use super::reader::{Reader, position};
use super::section::Section;
use super::settings::{Access, BashTools, DockerSettings, GitSeed, Provider, Sandboxes, Seed, UploadSeed};
use crate::provider::{NetworkMode, NetworkPolicy};

/// Default variable for sandboxd's token.
const ADMIN_TOKEN: &str = "REMCOCHAT_ADMIN_TOKEN";

/// Runtimes of sandboxd.
const DOCKER_RUNTIMES: &[&str] = &RUNTIMES;

/// Result of a check, whether or not the settings are usable.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) is_enabled: bool,
    /// `None` if too much is missing.
    pub(super) tools: Option<BashTools>,
    pub(super) faults: Vec<Fault>,
    /// Paths of all supported keys and tables.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test of the example file compares them"))]
    pub(super) keys: Vec<String>,
}

/// Kind of provider, before its settings are known to be complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Vercel,
    Docker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Git,
    Upload,
    None,
}

pub(super) fn check(text: &str) -> Checked {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let faults = errors.iter().take(ranges::MAX_FAULTS).map(|error| syntax_fault(text, error)).collect();
        return Checked { is_enabled: true, tools: None, faults, keys: Vec::new() };
    }
    let mut reader = Reader::new(text);
    let top = reader.top(document.get_ref());
    let app = reader.foreign(&top, "app");
    let section = reader.section(&app, "bash_tools");
    reader.suspect(&app, &section, "bash_tools");
    let is_enabled = reader.boolean(&section, "enabled", false);
    let tools = read(&mut reader, &section);
    let (faults, keys) = reader.finish();
    Checked { is_enabled, tools, faults, keys }
}

fn syntax_fault(text: &str, error: &toml::de::Error) -> Fault {
    let (line, column) = position(text, error.span().map_or(0, |span| span.start));
    Fault {
        at: Location::Text { line, column },
        problem: Problem::Syntax { message: error.message().to_owned() },
    }
}

fn read<'a>(reader: &mut Reader<'a>, section: &Section<'a>) -> Option<BashTools> {
    let kind = reader.choice(section, "provider", &["vercel", "docker"], &[Kind::Vercel, Kind::Docker]);
    let access = reader.choice(section, "access", &["localhost", "lan"], &[Access::Localhost, Access::Lan]);
    let trusted_proxies = reader.entries(
        section,
        "trusted_proxies",
        ranges::MAX_TRUSTED_PROXIES,
        |reader, section, key, value| {
            let text = reader.as_text(section, key, value)?;
            forms::addresses(text).map_err(|problem| reader.fault_of(section, key, value, problem)).ok()
        },
    );
    let max_stdout_chars = reader.number(section, "max_stdout_chars", ranges::OUTPUT_CHARS);
    let max_stderr_chars = reader.number(section, "max_stderr_chars", ranges::OUTPUT_CHARS);
    let command_timeout = millis(reader, section, "timeout_ms", ranges::COMMAND_TIMEOUT_MS);
    let max_concurrent = reader.number(section, "max_concurrent_sandboxes", ranges::CONCURRENT_SANDBOXES);
    let idle_ttl = millis(reader, section, "idle_ttl_ms", ranges::IDLE_TTL_MS);
    let sandbox = read_sandbox(reader, section, kind);
    let (docker, has_network) = read_docker(reader, section, kind);
    let seed = read_seed(reader, section, has_network || kind != Some(Kind::Docker));
    Some(BashTools {
        provider: match kind? {
            Kind::Vercel => Provider::Vercel,
            Kind::Docker => Provider::Docker(docker?),
        },
        access: access?,
        trusted_proxies: trusted_proxies.unwrap_or_default(),
        max_stdout_chars: max_stdout_chars as usize,
        max_stderr_chars: max_stderr_chars as usize,
        command_timeout,
        max_concurrent_sandboxes: max_concurrent as usize,
        idle_ttl,
        sandbox,
        seed: seed?,
    })
}

fn read_sandbox<'a>(reader: &mut Reader<'a>, section: &Section<'a>, kind: Option<Kind>) -> Sandboxes {
    let section = reader.section(section, "sandbox");
    let runtime = match kind {
        Some(Kind::Docker) => reader.text(&section, "runtime", "node24", |text| {
            let found = super::fault::shown(text);
            let is_known = DOCKER_RUNTIMES.contains(&text);
            is_known.then(|| text.to_owned()).ok_or(Problem::NotOneOf { allowed: DOCKER_RUNTIMES, found })
        }),
        Some(Kind::Vercel) | None => reader.text(&section, "runtime", "node22", forms::runtime),
    };
    let ports = reader.entries(&section, "ports", ranges::MAX_PORTS, |reader, section, key, value| {
        u16::try_from(reader.in_range(section, key, value, ranges::PORT)?).ok()
    });
    let mut once = Vec::new();
    for port in ports.unwrap_or_else(|| vec![ranges::PORT.default as u16]) {
        if !once.contains(&port) {
            once.push(port);
        }
    }
    Sandboxes {
        runtime,
        ports: once,
        vcpus: reader.number(&section, "vcpus", ranges::VCPUS),
        timeout: millis(reader, &section, "timeout_ms", ranges::SANDBOX_TIMEOUT_MS),
    }
}

/// Reads sandboxd's settings. `None` without an address, which is an error only if one is needed. Also returns
/// whether sandboxes have a network.
fn read_docker<'a>(
    reader: &mut Reader<'a>,
    section: &Section<'a>,
    kind: Option<Kind>,
) -> (Option<DockerSettings>, bool) {
    let section = reader.section(section, "docker");
    let url = needed(
        reader,
        &section,
        "orchestrator_url",
        (kind == Some(Kind::Docker)).then_some("if provider is \"docker\""),
        forms::orchestrator_url,
    );
    let admin_token_env = reader.text(&section, "admin_token_env", ADMIN_TOKEN, forms::variable);
    let mode = reader.choice(
        &section,
        "network_mode",
        &["default", "allowlist", "none"],
        &[NetworkMode::Default, NetworkMode::Allowlist, NetworkMode::None],
    );
    let allow =
        reader.entries(&section, "network_allow", MAX_NETWORK_RULES, |reader, section, key, value| {
            let text = reader.as_text(section, key, value)?;
            forms::network_rule(text).map_err(|problem| reader.fault_of(section, key, value, problem)).ok()
        });
    let memory_mb = reader.number(&section, "memory_mb", ranges::MEMORY_MB);
    let checkpoints = reader.number(&section, "checkpoints", ranges::CHECKPOINTS) as u32;
    let network = NetworkPolicy::new(mode.unwrap_or_default(), allow.unwrap_or_default());
    if network.mode == NetworkMode::None && !network.allow.is_empty() {
        let because = "sandboxes without a network cannot reach any host";
        let problem = Problem::Conflict { other: "app.bash_tools.docker.network_mode", because };
        reader.fault_at(&section, "network_allow", problem);
    }
    let has_network = network.mode != NetworkMode::None;
    let docker = url.map(|orchestrator_url| DockerSettings {
        orchestrator_url,
        admin_token_env,
        network,
        memory_mb,
        checkpoints: (checkpoints > 0).then_some(checkpoints),
    });
    (docker, has_network)
}

fn read_seed<'a>(reader: &mut Reader<'a>, parent: &Section<'a>, has_network: bool) -> Option<Seed> {
    let section = reader.section(parent, "seed");
    let mode =
        reader.choice(&section, "mode", &["git", "upload", "none"], &[Mode::Git, Mode::Upload, Mode::None]);
    let git = read_git(reader, &section, mode);
    let upload = read_upload(reader, parent, &section, mode);
    if mode == Some(Mode::Git) && !has_network {
        let because = "sandboxes without a network cannot clone a repository";
        let problem = Problem::Conflict { other: "app.bash_tools.docker.network_mode", because };
        reader.fault_at(&section, "mode", problem);
    }
    let max_bytes = reader.number(&section, "max_bytes", ranges::SEED_BYTES);
    match mode? {
        Mode::Git => git.map(|git| Seed::Git(GitSeed { max_bytes, ..git })),
        Mode::Upload => upload.map(|upload| Seed::Upload(UploadSeed { max_bytes, ..upload })),
        Mode::None => Some(Seed::None),
    }
}

fn read_git<'a>(reader: &mut Reader<'a>, section: &Section<'a>, mode: Option<Mode>) -> Option<GitSeed> {
    let because = (mode == Some(Mode::Git)).then_some("if seed.mode is \"git\"");
    let url = needed(reader, section, "git_url", because, forms::git_url);
    let revision = reader.optional(section, "git_revision", forms::git_revision);
    let token_env = reader.optional(section, "git_token_env", forms::variable);
    let allow_http = reader.boolean(section, "git_allow_http", false);
    let url = url?;
    let conflict = |other, because| Problem::Conflict { other, because };
    if url.scheme() == "http" && !allow_http {
        let because = "http does not protect the clone in transit; use https, or set git_allow_http";
        reader.fault_at(section, "git_url", conflict("app.bash_tools.seed.git_allow_http", because));
    }
    if url.scheme() == "http" && token_env.is_some() {
        let because = "http does not encrypt the token; use https";
        reader.fault_at(section, "git_token_env", conflict("app.bash_tools.seed.git_url", because));
    }
    Some(GitSeed { url, revision, token_env, max_bytes: 0 })
}

fn read_upload<'a>(
    reader: &mut Reader<'a>,
    parent: &Section<'a>,
    section: &Section<'a>,
    mode: Option<Mode>,
) -> Option<UploadSeed> {
    let because = (mode == Some(Mode::Upload)).then_some("if seed.mode is \"upload\"");
    let root = needed(reader, parent, "project_root", because, forms::absolute_path);
    let include = reader.text(section, "upload_include", "**/*", forms::glob);
    Some(UploadSeed { root: root?, include, max_bytes: 0 })
}

/// A text that is required under certain conditions.
fn needed<'a, T>(
    reader: &mut Reader<'a>,
    section: &Section<'a>,
    key: &str,
    because: Option<&'static str>,
    parse: impl Fn(&str) -> Result<T, Problem>,
) -> Option<T> {
    let is_absent = reader.is_absent(section, key);
    let value = reader.optional(section, key, parse);
    if let (true, Some(because)) = (is_absent, because) {
        reader.fault_at(section, key, Problem::Missing { because });
    }
    value
}

fn millis<'a>(reader: &mut Reader<'a>, section: &Section<'a>, key: &str, range: Range) -> Duration {
    Duration::from_millis(reader.number(section, key, range))
}

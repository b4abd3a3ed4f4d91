//! Configuration files: valid values, invalid values, and the errors for them.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod keys;
mod preflight;

use std::path::PathBuf;
use std::time::Duration;

use bash_tools::config::{self, Access, Config, Location, Provider, Seed, parse};
use bash_tools::provider::NetworkMode;
use proptest::prelude::*;

/// Valid lines for each table. A test case replaces some of them.
const GOOD: [(&str, &[&str]); 4] = [
    ("app.bash_tools", &["enabled = true", "provider = \"docker\""]),
    ("app.bash_tools.docker", &["orchestrator_url = \"http://127.0.0.1:8080\""]),
    ("app.bash_tools.seed", &["git_url = \"https://git.lan/x.git\""]),
    ("app.bash_tools.sandbox", &[]),
];

/// A valid file in which a table has some other lines. A line for an existing key replaces it.
fn file(table: &str, lines: &[&str]) -> String {
    let name = |line: &str| line.split('=').next().unwrap().trim().to_owned();
    let mut text = String::new();
    for (known, good) in GOOD {
        let own = if known == table { lines } else { &[] };
        let kept = good.iter().filter(|line| !own.iter().any(|own| name(own) == name(line)));
        text.push_str(&format!("[{known}]\n"));
        for line in kept.chain(own).filter(|line| !line.ends_with("= -")) {
            text.push_str(&format!("{line}\n"));
        }
    }
    text
}

/// The only error of a file with one fault: its key and its message.
fn only_fault(text: &str) -> (String, String) {
    let faults = parse(text).unwrap_err();
    assert_eq!(faults.len(), 1, "{text}\n{faults:#?}");
    let Location::Key { path, line } = &faults[0].at else { panic!("{:?}", faults[0]) };
    let reported = faults[0].to_string();
    let line = line.unwrap_or_else(|| panic!("no line: {reported}"));
    assert!(reported.starts_with(&format!("line {line}: {path} ")), "{reported}");
    (path.clone(), reported)
}

fn tools(text: &str) -> config::BashTools {
    parse(text).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}")).tools.unwrap()
}

#[test]
fn the_ends_of_each_range_are_in_it() {
    let ends = [
        ("app.bash_tools", "max_stdout_chars", 200, 200_000_u64),
        ("app.bash_tools", "max_stderr_chars", 200, 200_000),
        ("app.bash_tools", "timeout_ms", 1_000, 300_000),
        ("app.bash_tools", "max_concurrent_sandboxes", 1, 10),
        ("app.bash_tools", "idle_ttl_ms", 10_000, 21_600_000),
        ("app.bash_tools.docker", "memory_mb", 256, 16_384),
        ("app.bash_tools.docker", "checkpoints", 0, 1000),
        ("app.bash_tools.sandbox", "vcpus", 1, 8),
        ("app.bash_tools.sandbox", "timeout_ms", 30_000, 18_000_000),
        ("app.bash_tools.seed", "max_bytes", 65_536, 68_719_476_736),
    ];
    for (table, key, min, max) in ends {
        for number in [min, max] {
            tools(&file(table, &[&format!("{key} = {number}")]));
        }
    }
    assert_eq!(
        tools(&file("app.bash_tools.sandbox", &["ports = [1, 65_535, 0xFFFF, 1]"])).sandbox.ports,
        [1, 65535]
    );
    assert_eq!(tools(&file("app.bash_tools.sandbox", &["ports = []"])).sandbox.ports, [0_u16; 0]);
}

#[test]
fn every_value_of_the_file_takes_effect() {
    let all = tools(
        r#"
        [app]
        version = 7
        [app.other]
        anything = "goes"
        [app.bash_tools]
        enabled = true
        provider = "docker"
        access = "lan"
        trusted_proxies = ["10.0.0.5", "fd00::/8"]
        project_root = "/srv/project"
        max_stdout_chars = 300
        max_stderr_chars = 400
        timeout_ms = 5000
        max_concurrent_sandboxes = 3
        idle_ttl_ms = 60000
        sandbox = { runtime = "python3.13", ports = [8000, 3000], vcpus = 4, timeout_ms = 60000 }
        docker = { orchestrator_url = "https://sandboxd.lan/", admin_token_env = "TOKEN", network_mode = "none", memory_mb = 512, checkpoints = 9 }
        seed = { mode = "upload", upload_include = "src/**", max_bytes = 1000000 }
        "#,
    );
    assert_eq!((all.max_stdout_chars, all.max_stderr_chars, all.max_concurrent_sandboxes), (300, 400, 3));
    assert_eq!((all.command_timeout, all.idle_ttl), (Duration::from_secs(5), Duration::from_secs(60)));
    assert_eq!((all.access, all.trusted_proxies.len()), (Access::Lan, 2));
    assert_eq!((all.sandbox.runtime.as_str(), all.sandbox.vcpus), ("python3.13", 4));
    assert_eq!((all.sandbox.ports, all.sandbox.timeout), (vec![8000, 3000], Duration::from_secs(60)));
    let Provider::Docker(docker) = all.provider else { panic!("{:?}", all.provider) };
    assert_eq!(docker.orchestrator_url.as_str(), "https://sandboxd.lan/");
    assert_eq!(
        (docker.admin_token_env.as_str(), docker.network.mode, docker.memory_mb, docker.checkpoints),
        ("TOKEN", NetworkMode::None, 512, Some(9))
    );
    let Seed::Upload(upload) = all.seed else { panic!("{:?}", all.seed) };
    assert_eq!(
        (upload.root, upload.include.as_str(), upload.max_bytes),
        ("/srv/project".into(), "src/**", 1_000_000)
    );
}

#[test]
fn a_workspace_can_start_empty() {
    let none = file("app.bash_tools.seed", &["mode = \"none\"", "git_url = \"\""]);
    assert_eq!(tools(&none).seed, Seed::None);
}

#[test]
fn all_errors_are_reported_together_and_in_order() {
    let faults = parse(
        "[app.bash_tools]\nenabled = true\nacces = 1\ntimeout_ms = 1\nprovider = 'docker'\n\
         [app.bash_tools.sandbox]\nports = [\n  3000,\n  70000,\n]\nmemory_mb = 512\n\
         [app.bash_tools.dokcer]\nx = 1\n[app.bash_tools.seed]\nmode = 'upload'\n",
    );
    let reported: Vec<_> = faults.unwrap_err().iter().map(ToString::to_string).collect();
    let wanted = [
        "line 1: app.bash_tools.project_root is required if seed.mode is \"upload\"",
        "line 3: app.bash_tools.acces is not known; did you mean app.bash_tools.access?",
        "line 4: app.bash_tools.timeout_ms must be from 1000 to 300000 milliseconds, not 1",
        "line 9: app.bash_tools.sandbox.ports[1] must be from 1 to 65535, not 70000",
        "line 11: app.bash_tools.sandbox.memory_mb is not known; did you mean app.bash_tools.docker.memory_mb?",
        "line 12: app.bash_tools.dokcer is not known; did you mean app.bash_tools.docker?",
        "app.bash_tools.docker.orchestrator_url is required if provider is \"docker\"",
    ];
    assert_eq!(reported, wanted);
}

#[test]
fn contradictory_settings_are_rejected() {
    let (path, reported) = only_fault(
        &file("app.bash_tools.docker", &["network_mode = \"none\"", "memory_mb = 512"])
            .replace("git_url", "mode = \"git\"\ngit_url"),
    );
    assert_eq!(path, "app.bash_tools.seed.mode");
    assert!(reported.contains("without a network cannot clone"), "{reported}");
    let http = ["git_url = \"http://git.lan/x\"", "git_allow_http = true"];
    tools(&file("app.bash_tools.seed", &http));
    let (path, _) =
        only_fault(&file("app.bash_tools.seed", &[http[0], http[1], "git_token_env = \"TOKEN\""]));
    assert_eq!(path, "app.bash_tools.seed.git_token_env");
}

#[test]
fn unknown_keys_are_rejected_only_in_this_section() {
    let reported = |key: &str| only_fault(&file("app.bash_tools", &[&format!("{key} = 1")])).1;
    assert!(
        reported("Timeout-ms").ends_with("did you mean app.bash_tools.timeout_ms?"),
        "{}",
        reported("Timeout-ms")
    );
    assert!(reported("variant").ends_with("is not known"), "{}", reported("variant"));
    assert!(
        reported("\"a\\nb\"").contains(r#"app.bash_tools."a\nb" is not known"#),
        "{}",
        reported("\"a\\nb\"")
    );
    tools(&(file("app.bash_tools", &[]) + "[app.bash]\ntimeout = 1\n[web]\nport = 'x'\n"));
}

#[test]
fn errors_in_disabled_tools_do_not_prevent_the_start() {
    let off = |rest: &str| parse(&format!("[app.bash_tools]\n{rest}"));
    let nothing = Config { tools: None, notes: Vec::new() };
    assert_eq!(parse(""), Ok(nothing.clone()));
    assert_eq!(parse("[app]\n[other]\nx = 1"), Ok(nothing.clone()));
    assert_eq!(off("provider = 'docker'"), Ok(nothing), "the missing values are not needed yet");
    let reported = |rest: &str| off(rest).unwrap().notes.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(reported("enabled = false\nvcpu = 0\n[app.bash_tools.seed]\nmode = 1").len(), 2);
    assert_eq!(
        reported("idle_ttl_ms = 1"),
        ["line 2: app.bash_tools.idle_ttl_ms must be from 10000 to 21600000 milliseconds, not 1"]
    );
    let misspelt = parse("[app.bash-tools]\nenabled = true").unwrap();
    assert!(misspelt.notes[0].to_string().ends_with("did you mean app.bash_tools?"), "{misspelt:?}");
}

#[test]
fn a_misspelt_switch_is_always_an_error() {
    for line in ["enabled = 1", "enabled = 'true'", "enable = true", "Enabled = true", "enbaled = false"] {
        let faults = parse(&format!("[app.bash_tools]\n{line}\n")).unwrap_err();
        assert_eq!(faults.len(), 1, "{line}: {faults:?}");
        assert!(faults[0].to_string().starts_with("line 2: app.bash_tools."), "{}", faults[0]);
    }
    for text in ["app = 1", "[app]\nbash_tools = true", "[[app.bash_tools]]\nenabled = true"] {
        let reported = parse(text).unwrap_err()[0].to_string();
        assert!(reported.contains("must be a table"), "{reported}");
    }
}

#[test]
fn invalid_toml_is_reported_with_its_position() {
    let reported = |text: &str| parse(text).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>();
    let both = reported("[app.bash_tools]\nenabled = yes\ntimeout_ms = 30s\n");
    assert!(both[0].starts_with("line 2, column 11: is not TOML: "), "{both:?}");
    assert!(both.iter().any(|reported| reported.starts_with("line 3, column ")), "{both:?}");
    assert!(reported("a = 1\na = 2")[0].starts_with("line 2, column 1: "), "{:?}", reported("a = 1\na = 2"));
    assert!(reported("[app.bash_tools")[0].starts_with("line 1, column "));
}

#[test]
fn the_file_is_found_by_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("chat.toml");
    let load = |path: &PathBuf| {
        let path = path.to_str().unwrap().to_owned();
        config::load(move |name| (name == "REMCOCHAT_CONFIG_PATH").then(|| path.clone()))
    };
    assert_eq!(config::path(|_| None), PathBuf::from("config.toml"));
    assert!(matches!(load(&path), Err(config::Error::Unreadable { .. })));
    std::fs::write(&path, file("app.bash_tools", &[])).unwrap();
    assert!(load(&path).unwrap().tools.is_some());
    std::fs::write(&path, file("app.bash_tools", &["timeout_ms = 1", "vcpu = 1"])).unwrap();
    let reported = load(&path).unwrap_err().to_string();
    assert_eq!(reported.lines().count(), 3, "{reported}");
    assert!(reported.starts_with(&format!("{} is invalid:\n  line ", path.display())), "{reported}");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(matches!(load(&path), Err(config::Error::Unreadable { .. })));
    std::fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
    assert!(matches!(load(&path), Err(config::Error::TooLarge { .. })));
    assert!(matches!(load(&dir.path().to_owned()), Err(config::Error::Unreadable { .. })));
}

proptest! {
    #[test]
    fn errors_of_unusual_text_are_short(text in "(\\[app\\.bash_tools\\]\n)?([a-z_\\.\\[\\]=\"'0-9{},#\n -]{0,20}|enabled = true\n|ports = ){0,20}") {
        if let Err(faults) = parse(&text) {
            prop_assert!(!faults.is_empty());
            for fault in faults {
                prop_assert!(fault.to_string().len() < 2000);
            }
        }
    }
}

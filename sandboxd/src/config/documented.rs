//! Tests that `docs/settings.md` and the settings agree in both directions: names, defaults, units, bounds and choices.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Config, REMOVED_SETTINGS, Report};

/// A row of a table in the documentation.
struct Documented {
    names: Vec<String>,
    default: String,
    description: String,
}

fn documented() -> Vec<Documented> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').splitn(3, '|').map(str::trim).collect();
            let [names, default, description] = cells.as_slice() else {
                panic!("three columns are expected: {line}")
            };
            Documented {
                names: quoted(names).map(str::to_owned).collect(),
                default: (*default).to_owned(),
                description: (*description).to_owned(),
            }
        })
        .collect()
}

/// The parts of a text in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn load(settings: &[(&str, &str)]) -> (Result<Config, BTreeMap<String, String>>, Report) {
    let find =
        |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let (config, report) = Config::load(find, Vec::new());
    let faults = |faults: Vec<_>| {
        faults.into_iter().map(|fault: super::Fault| (fault.name, fault.problem)).collect::<BTreeMap<_, _>>()
    };
    (config.map_err(faults), report)
}

/// The error for a value that is neither a number nor a valid choice.
fn problem_of(name: &str) -> Option<String> {
    load(&[(name, "no such value")]).0.err()?.remove(name)
}

/// Bounds in a text: `(1, 1000)` for `1 to 1000`.
fn bounds_in(text: &str) -> Option<(u64, u64)> {
    let words: Vec<_> = text.split([' ', ',', '.', ';']).collect();
    let mut found = words.windows(3).filter(|words| words[1] == "to");
    found.find_map(|words| Some((words[0].parse().ok()?, words[2].parse().ok()?)))
}

/// Environment variables that are read and are not settings: they decide the default paths.
const OTHER_VARIABLES: [&str; 1] = ["HOME"];

#[test]
fn exactly_the_settings_are_documented() {
    let requested = RefCell::new(BTreeSet::new());
    let find = |name: &str| {
        requested.borrow_mut().insert(name.to_owned());
        None
    };
    drop(Config::load(find, Vec::new()));
    let others = REMOVED_SETTINGS.iter().map(|(name, _)| *name).chain(OTHER_VARIABLES);
    let mut read = requested.into_inner();
    others.for_each(|name| assert!(read.remove(name), "{name} is no longer read"));
    // The lower-case names of the proxy variables are alternatives, as in other programs.
    read.retain(|name| name.chars().any(|char| char.is_ascii_uppercase()));
    let documented: BTreeSet<String> = documented().into_iter().flat_map(|line| line.names).collect();
    let undocumented: Vec<_> = read.difference(&documented).collect();
    let unread: Vec<_> = documented.difference(&read).collect();
    assert!(undocumented.is_empty(), "not in docs/settings.md: {undocumented:?}");
    assert!(unread.is_empty(), "in docs/settings.md, but not read: {unread:?}");
}

/// Settings whose default depends on the machine. The documentation describes it in words.
const DETECTED_AT_START: [&str; 7] = [
    "SANDBOXD_ADMIN_TOKEN",
    "SANDBOXD_AGENT_PATH",
    "SANDBOXD_DOCKER_SOCKET",
    "SANDBOXD_IMAGE_DIR",
    "SANDBOXD_PROXY_IMAGE",
    "SANDBOXD_RUNTIME",
    "SANDBOXD_URL",
];

/// Expands `~/x` and `$NAME/x` with the environment of this process.
fn expanded(text: &str) -> Option<String> {
    match text.split_once('/') {
        Some(("~", rest)) => Some(format!("{}/{rest}", std::env::var("HOME").ok()?)),
        Some((name, rest)) if name.starts_with('$') => {
            Some(format!("{}/{rest}", std::env::var(&name[1..]).ok()?))
        }
        _ => Some(text.to_owned()),
    }
}

#[test]
fn defaults_match_the_documentation() {
    let (_, report) = load(&[]);
    let mut in_words = BTreeSet::new();
    for line in documented() {
        let row = report.rows.iter().find(|row| line.names.contains(&row.name));
        let row = row.unwrap_or_else(|| panic!("no default is reported for {:?}", line.names));
        let name = row.name.as_str();
        if line.default.is_empty() {
            assert!(row.source == "not set" || row.value.is_empty(), "{name} has the default {}", row.value);
        } else if DETECTED_AT_START.contains(&name) {
            in_words.insert(name.to_owned());
        } else {
            let mut values = quoted(&line.default).filter_map(expanded);
            assert!(values.any(|value| value == row.value), "{name}: {} is not {}", row.value, line.default);
            assert_eq!(row.source, "default", "{name}");
        }
    }
    assert_eq!(in_words, DETECTED_AT_START.map(str::to_owned).into());
}

#[test]
fn bounds_of_numbers_match_the_documentation() {
    for line in documented() {
        let name = line.names[0].as_str();
        let bounds = problem_of(name).filter(|problem| problem.starts_with("must be "));
        let bounds = bounds.as_deref().and_then(bounds_in);
        assert_eq!(
            bounds,
            bounds_in(&line.description),
            "the bounds of {name}, and those of its description"
        );
        let Some((least, most)) = bounds else { continue };
        let accepts =
            |number: u64| !load(&[(name, &number.to_string())]).0.is_err_and(|it| it.contains_key(name));
        assert!(accepts(least) && accepts(most), "{name}: {least} to {most}");
        assert!(!accepts(most + 1) && least.checked_sub(1).is_none_or(|less| !accepts(less)), "{name}");
    }
}

/// Returns the value of a setting in the unit at the end of its name.
type InUnit = fn(&Config) -> u64;

const MIB: u64 = 1024 * 1024;

/// The settings that are numbers. The test fails if one is missing here.
const NUMBERS: [(&str, InUnit); 10] = [
    ("SANDBOXD_PORT", |config| config.port.into()),
    ("SANDBOXD_MAX_BODY_BYTES", |config| config.limits.max_body_bytes as u64),
    ("SANDBOXD_MAX_CONCURRENT", |config| config.limits.max_concurrent as u64),
    ("SANDBOXD_DEFAULT_IDLE_TTL_MS", |config| config.limits.default_idle_ttl.as_millis() as u64),
    ("SANDBOXD_WORKSPACE_RETENTION_MS", |config| config.limits.workspace_retention.as_millis() as u64),
    ("SANDBOXD_ORPHAN_GRACE_MS", |config| config.limits.orphan_grace.as_millis() as u64),
    ("SANDBOXD_DISK_BUDGET_MB", |config| config.limits.disk_budget_bytes.unwrap_or(0) / MIB),
    ("SANDBOXD_MAX_COMMAND_TIMEOUT_MS", |config| config.limits.max_command_timeout.as_millis() as u64),
    ("SANDBOXD_PREVIEW_ANSWER_MS", |config| config.limits.preview_answer.as_millis() as u64),
    ("SANDBOXD_EGRESS_MAX_MB", |config| config.egress.max_bytes.unwrap_or(0) / MIB),
];

/// Numbers without a unit.
const PLAIN_NUMBERS: [&str; 2] = ["SANDBOXD_PORT", "SANDBOXD_MAX_CONCURRENT"];

#[test]
fn numbers_have_the_unit_in_their_name() {
    let documented: BTreeSet<String> = documented()
        .into_iter()
        .filter(|line| bounds_in(&line.description).is_some())
        .map(|line| line.names[0].clone())
        .collect();
    assert_eq!(documented, NUMBERS.map(|(name, _)| name.to_owned()).into());
    for (name, in_unit) in NUMBERS {
        let has_unit = ["_MS", "_MB", "_BYTES"].iter().any(|unit| name.ends_with(unit));
        assert!(has_unit || PLAIN_NUMBERS.contains(&name), "the name of {name} has no unit");
        let bounds = bounds_in(&problem_of(name).unwrap()).unwrap();
        for number in [bounds.0, bounds.1] {
            let config = load(&[(name, &number.to_string())]).0.unwrap();
            assert_eq!(in_unit(&config), number, "{name}");
        }
    }
}

#[test]
fn choices_match_the_documentation() {
    for line in documented() {
        let name = line.names[0].as_str();
        let text = format!("{} {}", line.default, line.description);
        let documented: BTreeSet<&str> = quoted(&text).collect();
        let Some(problem) = problem_of(name) else { continue };
        let choices: BTreeSet<&str> = quoted(&problem).collect();
        // The documentation does not list `true` and `false`, because the default shows that they are the choices.
        if choices.is_empty() || choices == BTreeSet::from(["true", "false"]) {
            continue;
        }
        let missing: Vec<_> = choices.difference(&documented).collect();
        assert!(missing.is_empty(), "{name}: docs/settings.md does not name {missing:?}");
        let is_word = |text: &&&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
        for word in documented.iter().filter(is_word) {
            let fault = load(&[(name, word)]).0.err().and_then(|mut faults| faults.remove(name));
            assert_eq!(fault, None, "{name} does not accept {word}");
        }
    }
}

//! Tests that `docs/settings.md` and the settings agree in both directions: names, defaults, units, bounds and choices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandboxd_model::rates::RateClass;

use super::published::names_read;
use super::{Config, REMOVED_SETTINGS, Report};

/// A row of a table in the documentation.
struct Documented {
    names: Vec<String>,
    default: String,
    description: String,
}

fn documentation() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/settings.md");
    std::fs::read_to_string(file).unwrap()
}

fn documented() -> Vec<Documented> {
    rows_of(&documentation())
}

fn rows_of(text: &str) -> Vec<Documented> {
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

/// One line for each setting that differs from its description, which begins with the setting's name.
type Faults = Vec<String>;

fn faults_of_names(documented: &[Documented]) -> Faults {
    let mut read = names_read();
    for (name, _) in REMOVED_SETTINGS {
        read.remove(name);
    }
    // The lower-case names of the proxy variables are alternatives, as in other programs.
    read.retain(|name| name.chars().any(|char| char.is_ascii_uppercase()));
    let documented: BTreeSet<String> = documented.iter().flat_map(|line| line.names.clone()).collect();
    let undocumented = read.difference(&documented).map(|name| format!("{name} is not in docs/settings.md"));
    let unread = documented.difference(&read).map(|name| format!("{name} is documented, but not read"));
    undocumented.chain(unread).collect()
}

#[test]
fn exactly_the_settings_are_documented() {
    assert_eq!(faults_of_names(&documented()), Faults::new());
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

fn faults_of_defaults(documented: &[Documented]) -> Faults {
    let (_, report) = load(&[]);
    documented.iter().filter_map(|line| fault_of_default(line, &report)).collect()
}

fn fault_of_default(line: &Documented, report: &Report) -> Option<String> {
    let Some(row) = report.rows.iter().find(|row| line.names.contains(&row.name)) else {
        return Some(format!("{}: no default is reported", line.names.join(", ")));
    };
    let is_equal = if line.default.is_empty() {
        row.source == "not set" || row.value.is_empty()
    } else if DETECTED_AT_START.contains(&row.name.as_str()) {
        true
    } else {
        let mut values = quoted(&line.default).filter_map(expanded);
        row.source == "default" && values.any(|value| value == row.value)
    };
    let found = format!("{}: the default is {} ({}), not {}", row.name, row.value, row.source, line.default);
    (!is_equal).then_some(found)
}

#[test]
fn defaults_match_the_documentation() {
    let documented = documented();
    assert_eq!(faults_of_defaults(&documented), Faults::new());
    let is_in_words =
        |name: &&str| documented.iter().any(|line| line.names[0] == *name && !line.default.is_empty());
    assert!(DETECTED_AT_START.iter().all(is_in_words), "an entry is not needed");
}

fn faults_of_bounds(documented: &[Documented]) -> Faults {
    documented.iter().filter_map(fault_of_bounds).collect()
}

fn fault_of_bounds(line: &Documented) -> Option<String> {
    let name = line.names[0].as_str();
    let bounds = problem_of(name).filter(|problem| problem.starts_with("must be "));
    let bounds = bounds.as_deref().and_then(bounds_in);
    let documented = bounds_in(&line.description);
    if bounds != documented {
        return Some(format!("{name}: the bounds are {bounds:?}, not {documented:?}"));
    }
    let (least, most) = bounds?;
    let accepts =
        |number: u64| !load(&[(name, &number.to_string())]).0.is_err_and(|it| it.contains_key(name));
    let is_equal = accepts(least)
        && accepts(most)
        && !accepts(most + 1)
        && least.checked_sub(1).is_none_or(|less| !accepts(less));
    (!is_equal).then(|| format!("{name}: the bounds are not {least} to {most}"))
}

#[test]
fn bounds_of_numbers_match_the_documentation() {
    assert_eq!(faults_of_bounds(&documented()), Faults::new());
}

/// Returns the value of a setting in the unit at the end of its name.
type InUnit = fn(&Config) -> u64;

const MIB: u64 = 1024 * 1024;

/// The settings that are numbers. The test fails if one is missing here.
const NUMBERS: [(&str, InUnit); 21] = [
    ("SANDBOXD_PORT", |config| config.port.into()),
    ("SANDBOXD_MAX_BODY_BYTES", |config| config.limits.max_body_bytes as u64),
    ("SANDBOXD_MAX_CONCURRENT", |config| config.limits.max_concurrent as u64),
    ("SANDBOXD_POOL_SIZE", |config| config.limits.pool_size as u64),
    ("SANDBOXD_DEFAULT_IDLE_TTL_MS", |config| config.limits.default_idle_ttl.as_millis() as u64),
    ("SANDBOXD_WORKSPACE_RETENTION_MS", |config| config.limits.workspace_retention.as_millis() as u64),
    ("SANDBOXD_ORPHAN_GRACE_MS", |config| config.limits.orphan_grace.as_millis() as u64),
    ("SANDBOXD_DISK_BUDGET_MB", |config| config.limits.disk_budget_bytes.unwrap_or(0) / MIB),
    ("SANDBOXD_BASES_MB", |config| config.limits.bases_bytes / MIB),
    ("SANDBOXD_REPOSITORIES_MB", |config| config.repositories.kept_bytes / MIB),
    ("SANDBOXD_REPOSITORY_MAX_MB", |config| config.repositories.max_fetched_bytes / MIB),
    ("SANDBOXD_PACKAGES_MB", |config| config.packages.kept_bytes / MIB),
    ("SANDBOXD_PACKAGES_MAX_MB", |config| config.packages.max_fetched_bytes / MIB),
    ("SANDBOXD_SNAPSHOTS_MB", |config| config.limits.snapshots_bytes.unwrap_or(0) / MIB),
    ("SANDBOXD_MAX_COMMAND_TIMEOUT_MS", |config| config.limits.max_command_timeout.as_millis() as u64),
    ("SANDBOXD_PREVIEW_ANSWER_MS", |config| config.limits.preview_answer.as_millis() as u64),
    ("SANDBOXD_READS_PER_MINUTE", |config| per_minute(config, RateClass::Reads)),
    ("SANDBOXD_COMMANDS_PER_MINUTE", |config| per_minute(config, RateClass::Commands)),
    ("SANDBOXD_CREATES_PER_MINUTE", |config| per_minute(config, RateClass::Creates)),
    ("SANDBOXD_AUDIT_MB", |config| config.audit.kept_bytes / MIB),
    ("SANDBOXD_EGRESS_MAX_MB", |config| config.egress.max_bytes.unwrap_or(0) / MIB),
];

fn per_minute(config: &Config, class: RateClass) -> u64 {
    config.rates.of(class).map_or(0, |rate| rate.get().into())
}

/// Numbers without a unit.
const PLAIN_NUMBERS: [&str; 3] = ["SANDBOXD_PORT", "SANDBOXD_MAX_CONCURRENT", "SANDBOXD_POOL_SIZE"];

fn faults_of_units(numbers: &[(&str, InUnit)]) -> Faults {
    numbers.iter().filter_map(|(name, in_unit)| fault_of_unit(name, *in_unit)).collect()
}

fn fault_of_unit(name: &str, in_unit: InUnit) -> Option<String> {
    let has_unit = ["_MS", "_MB", "_BYTES", "_PER_MINUTE"].iter().any(|unit| name.ends_with(unit));
    if !has_unit && !PLAIN_NUMBERS.contains(&name) {
        return Some(format!("{name}: the name has no unit"));
    }
    let (least, most) = bounds_in(&problem_of(name).unwrap()).unwrap();
    [least, most].into_iter().find_map(|number| {
        let found = in_unit(&load(&[(name, &number.to_string())]).0.unwrap());
        (found != number).then(|| format!("{name}: {number} is read as {found} in the unit of the name"))
    })
}

#[test]
fn numbers_have_the_unit_in_their_name() {
    let documented: BTreeSet<String> = documented()
        .into_iter()
        .filter(|line| bounds_in(&line.description).is_some())
        .map(|line| line.names[0].clone())
        .collect();
    assert_eq!(documented, NUMBERS.map(|(name, _)| name.to_owned()).into());
    assert_eq!(faults_of_units(&NUMBERS), Faults::new());
}

fn faults_of_choices(documented: &[Documented]) -> Faults {
    documented.iter().flat_map(faults_of_choice).collect()
}

fn faults_of_choice(line: &Documented) -> Faults {
    let name = line.names[0].as_str();
    let text = format!("{} {}", line.default, line.description);
    let documented: BTreeSet<&str> = quoted(&text).collect();
    let problem = problem_of(name).unwrap_or_default();
    let choices: BTreeSet<&str> = quoted(&problem).collect();
    // The documentation does not list `true` and `false`, because the default shows that they are the choices.
    if choices.is_empty() || choices == BTreeSet::from(["true", "false"]) {
        return Faults::new();
    }
    let missing = choices.difference(&documented).map(|word| format!("{name}: {word} is not documented"));
    let is_word = |text: &&&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
    let words = documented.iter().filter(is_word);
    let refused = words.filter(|word| load(&[(name, word)]).0.is_err_and(|it| it.contains_key(name)));
    missing.chain(refused.map(|word| format!("{name}: {word} is not accepted"))).collect()
}

#[test]
fn choices_match_the_documentation() {
    assert_eq!(faults_of_choices(&documented()), Faults::new());
}

#[test]
fn a_setting_that_differs_from_its_description_is_named() {
    type Check = fn(&[Documented]) -> Faults;
    let cases: [(Check, &str, &str, &str); 9] = [
        (faults_of_names, "| `SANDBOXD_BASES_MB` |", "| SANDBOXD_BASES_MB |", "SANDBOXD_BASES_MB"),
        (faults_of_names, "`HTTP_PROXY`, ", "`HTTP_PROXY`, `FTP_PROXY`, ", "FTP_PROXY"),
        (faults_of_defaults, "| `10240` |", "| `10241` |", "SANDBOXD_BASES_MB"),
        (faults_of_defaults, "| `us-east-1` |", "| |", "SANDBOXD_SNAPSHOT_REGION"),
        (faults_of_bounds, "1 to 1000. Parked", "1 to 1001. Parked", "SANDBOXD_MAX_CONCURRENT"),
        (faults_of_bounds, ", 1 to 1000. Parked", ". Parked", "SANDBOXD_MAX_CONCURRENT"),
        (faults_of_bounds, "| Log filter.", "| Log filter, 1 to 5.", "SANDBOXD_LOG"),
        (faults_of_choices, "`text` or `json`", "`text`", "SANDBOXD_LOG_FORMAT"),
        (faults_of_choices, "`text` or `json`", "`text`, `json` or `xml`", "SANDBOXD_LOG_FORMAT"),
    ];
    for (check, text, replacement, name) in cases {
        let documentation = documentation();
        assert_eq!(documentation.matches(text).count(), 1, "{text}");
        let faults = check(&rows_of(&documentation.replace(text, replacement)));
        assert!(faults.len() == 1 && faults[0].starts_with(name), "{text} -> {replacement}: {faults:?}");
    }
}

#[test]
fn a_setting_that_is_read_in_another_unit_is_named() {
    let seconds: InUnit = |config| config.limits.preview_answer.as_secs();
    let faults = faults_of_units(&[("SANDBOXD_PREVIEW_ANSWER_MS", seconds)]);
    assert_eq!(faults, ["SANDBOXD_PREVIEW_ANSWER_MS: 1000 is read as 1 in the unit of the name"]);
}

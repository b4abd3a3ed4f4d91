//! The protocol's conformance suite, against the daemon's own router.

mod answers;
mod fixtures;
mod rounds;

use std::path::Path;

use serde_json::Value;
use test_daemon::packages::{NpmPackages, run};

use super::published::{npm, token_proxy};
use crate::support::harness::{Daemon, Home};

/// Scenarios that fail if the server has the fixtures of the suite: none.
const BASELINE: &str = include_str!("baseline.yml");

/// Scenarios that pass, although the revision does not require them.
const ALSO: [(&str, &[&str]); 2] = [
    ("2025-11-25", &["server-session-lifecycle", "server-sse-polling"]),
    ("2026-07-28", &["http-header-validation"]),
];

/// Scenarios that need fixtures, for each revision. The run also fails if one of them passes.
const WITHOUT_FIXTURES: [(&str, &str); 2] = [
    ("2025-11-25", include_str!("without-fixtures-2025-11-25.yml")),
    ("2026-07-28", include_str!("without-fixtures-2026-07-28.yml")),
];

/// The checks that failed, with their reasons. The suite writes those only to a file for each scenario.
fn failed_checks(results: &Path) -> Vec<String> {
    let scenarios = std::fs::read_dir(results).into_iter().flatten().flatten();
    let files = scenarios.filter_map(|scenario| std::fs::read(scenario.path().join("checks.json")).ok());
    let checks = files.flat_map(|file| serde_json::from_slice::<Vec<Value>>(&file).unwrap_or_default());
    let failed = checks.filter(|check| check["status"] == "FAILURE");
    failed.map(|check| format!("{}: {}", check["id"], check["errorMessage"])).collect()
}

/// Runs what a revision of the protocol requires of a server. The scenarios of `baseline`, and no others, must fail.
async fn run_required(packages: &NpmPackages, daemon: &Daemon, revision: &str, baseline: &str) {
    let proxy = token_proxy(packages, daemon);
    let (file, results) = (daemon.home.path().join("baseline.yml"), daemon.home.path().join(revision));
    std::fs::write(&file, baseline).unwrap();
    let mut suite = packages.program("conformance");
    suite.args(["server", "--url", &format!("{}/mcp", proxy.base), "--requirements", revision]);
    suite.arg("--expected-failures").arg(&file).arg("--output-dir").arg(&results);
    let (is_passed, text) = run(suite).await;
    assert!(is_passed, "{revision}: {:#?}\n{text}", failed_checks(&results));
    for (_, scenarios) in ALSO.iter().filter(|(of, _)| *of == revision) {
        for scenario in *scenarios {
            assert!(text.contains(&format!("✓ {scenario}:")), "{scenario} of {revision}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_required_scenarios_pass_with_the_fixtures_of_the_suite() {
    let Some(packages) = npm().await else { return };
    let daemon = Daemon::start_with(Home::new(), fixtures::surfaces).await;
    for (revision, _) in WITHOUT_FIXTURES {
        run_required(&packages, &daemon, revision, BASELINE).await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_server_passes_every_scenario_without_fixtures() {
    let Some(packages) = npm().await else { return };
    let daemon = Daemon::start().await;
    for (revision, baseline) in WITHOUT_FIXTURES {
        run_required(&packages, &daemon, revision, baseline).await;
    }
    daemon.stop().await;
}

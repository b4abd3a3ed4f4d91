//! `sandboxd doctor`: what it tells of a machine that is well, and of one that is not.

use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use serde_json::Value;

use crate::harness::{Daemon, Home, free_port};

async fn doctor(home: &Home, settings: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = home.program(&[&["doctor"], args].concat());
    command.env("SANDBOXD_PORT", free_port().to_string());
    command.envs(settings.iter().copied()).output().await.unwrap()
}

/// The findings of one check, as `level: words`.
async fn findings(home: &Home, settings: &[(&str, &str)], check: &str) -> Vec<String> {
    let output = doctor(home, settings, &["--json"]).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], output.status.success(), "{report}");
    let checks = report["checks"].as_array().unwrap();
    for found in checks {
        assert_eq!(found["level"] == "ok", found["fix"].is_null(), "advice where there is trouble: {found}");
    }
    let of_it = checks.iter().filter(|found| found["check"] == check);
    of_it
        .map(|found| format!("{}: {}", found["level"].as_str().unwrap(), found["found"].as_str().unwrap()))
        .collect()
}

#[track_caller]
fn one(found: &[String], level: &str, words: &str) {
    let fits = |found: &String| found.starts_with(&format!("{level}: ")) && found.contains(words);
    assert!(found.iter().any(fits), "no {level} with {words:?} in {found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_well_has_no_fault_and_nothing_is_made() {
    let home = Home::new();
    let output = doctor(&home, &[], &[]).await;
    let report = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report}");
    let checks =
        ["settings", "token", "agent", "state dir", "run dir", "daemon", "engine", "image", "clock", "quota"];
    for check in checks {
        assert!(report.lines().any(|line| line.contains(&format!("  {check} "))), "no {check} in {report}");
    }
    assert!(report.ends_with("warnings\n") && report.contains("0 faults"), "{report}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "it leaves nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_runs_is_found_and_its_token_tried() {
    let daemon = Daemon::start().await;
    let at = ("SANDBOXD_URL", daemon.base.as_str());
    one(&findings(&daemon.home, &[at], "daemon").await, "ok", "is ready");
    one(&findings(&daemon.home, &[at], "daemon's token").await, "ok", "have it");
    let other = ("SANDBOXD_ADMIN_TOKEN", "another-token-of-at-least-32-characters");
    one(&findings(&daemon.home, &[at, other], "daemon's token").await, "warning", "another");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_trouble_is_told_with_what_to_do() {
    let home = Home::new();
    let path = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    one(&findings(&home, &[("SANDBOXD_PROT", "1")], "settings").await, "warning", "SANDBOXD_PROT");
    one(&findings(&home, &[("SANDBOXD_MAX_CONCURRENT", "x")], "settings").await, "fault", "MAX_CONCURRENT");
    let no_socket = path("no.sock");
    one(&findings(&home, &[("SANDBOXD_DOCKER_SOCKET", &no_socket)], "engine").await, "fault", "no.sock");
    one(&findings(&home, &[("SANDBOXD_AGENT_PATH", "/bin/sh")], "agent").await, "fault", "not static");
    one(&findings(&home, &[("SANDBOXD_AGENT_PATH", "/etc/passwd")], "agent").await, "fault", "no 64-bit");
    one(&findings(&home, &[("SANDBOXD_RUNTIME", "nope")], "oci runtime").await, "fault", "nope");
    one(&findings(&home, &[("SANDBOXD_ADMIN_TOKEN", "short")], "token").await, "warning", "short");
    let no_image = [("SANDBOXD_IMAGE", "sandboxd-tests/none"), ("SANDBOXD_DISABLE_AUTOBUILD", "1")];
    one(&findings(&home, &no_image, "image").await, "fault", "missing");
    std::fs::create_dir(path("open")).unwrap();
    std::fs::set_permissions(path("open"), PermissionsExt::from_mode(0o755)).unwrap();
    one(&findings(&home, &[("SANDBOXD_STATE_DIR", &path("open"))], "state dir").await, "warning", "755");
    std::fs::write(path("file"), "").unwrap();
    let below = path("file/state");
    one(&findings(&home, &[("SANDBOXD_STATE_DIR", &below)], "state dir").await, "fault", "cannot be made");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    // Its queue accepts and nobody answers: so this is looked for elsewhere and found taken here.
    let away = format!("http://127.0.0.1:{}", free_port());
    let settings = [("SANDBOXD_PORT", port.as_str()), ("SANDBOXD_URL", &away)];
    one(&findings(&home, &settings, "daemon").await, "fault", "cannot listen");
}

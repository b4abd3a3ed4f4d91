//! `sandboxd audit verify`.

use std::fs;
use std::process::Output;

use serde_json::Value;

use super::dir_of;
use crate::support::harness::{Daemon, Home};

async fn verify(home: &Home, args: &[&str]) -> Output {
    home.program(&[&["audit", "verify"], args].concat()).output().await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_record_is_found_with_and_without_a_daemon() {
    let daemon = Daemon::start().await;
    daemon.client.create_project("lab").await.unwrap();
    let while_running = verify(&daemon.home, &[]).await;
    assert!(while_running.status.success(), "{while_running:?}");
    let home = daemon.stop().await;
    let stopped = verify(&home, &["--json"]).await;
    assert!(stopped.status.success(), "{stopped:?}");
    let json: Value = serde_json::from_str(&text(&stopped)).unwrap();
    assert_eq!((&json["ok"], &json["files"], &json["firstSeq"]), (&true.into(), &1.into(), &1.into()));
    let head = format!("{}:{}", json["lastSeq"], json["lastMac"].as_str().unwrap());
    assert!(verify(&home, &["--logged", &head]).await.status.success());

    let file = dir_of(&home).join("audit-00000001.ndjson");
    let intact = fs::read_to_string(&file).unwrap();
    let at = intact.lines().position(|line| line.contains(r#""project":"lab""#)).unwrap() + 1;
    fs::write(&file, intact.replace(r#""project":"lab""#, r#""project":"lob""#)).unwrap();
    let changed = verify(&home, &[]).await;
    assert_eq!(changed.status.code(), Some(1), "{changed:?}");
    assert!(text(&changed).starts_with(&format!("audit-00000001.ndjson, line {at}: changed")), "{changed:?}");

    // The last line is in the database.
    let cut = intact.trim_end().rfind('\n').unwrap() + 1;
    fs::write(&file, &intact[..cut]).unwrap();
    let missing = verify(&home, &[]).await;
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(text(&missing).contains("the last lines are missing"), "{missing:?}");
    // The next daemon says so, and its own last line does not hide it.
    let home = Daemon::start_in(home).await.stop().await;
    let reported = verify(&home, &[]).await;
    assert!(text(&reported).contains("when it started here"), "{reported:?}");
    fs::write(&file, intact).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_does_not_start_with_a_link_as_the_directory() {
    let home = Home::new();
    let link = home.path().join("link");
    fs::create_dir(home.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(home.path().join("elsewhere"), &link).unwrap();
    let home = home.set("SANDBOXD_AUDIT_DIR", &link.to_string_lossy());
    let output = home.program(&["serve"]).env("SANDBOXD_PORT", "0").output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("SANDBOXD_AUDIT_DIR"), "{said}");
    assert_eq!(fs::read_dir(home.path().join("elsewhere")).unwrap().count(), 0);
}

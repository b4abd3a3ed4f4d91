//! `sandboxd doctor` on a healthy machine and on machines with a fault.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};
use std::sync::Mutex;

use bollard::models::ContainerSummary;
use bollard::query_parameters::{
    ListContainersOptions, ListVolumesOptions, RemoveImageOptions, TagImageOptions,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::harness::{Daemon, Home, SOON, docker, free_port, until};

/// An image tag that only one story uses, so that the story knows what its doctor created.
struct OwnImage(String);

impl OwnImage {
    async fn of(home: &Home) -> Self {
        let tag = format!("doctor-{}", home.path().file_name().unwrap().to_string_lossy().to_lowercase());
        let name = format!("sandboxd-tests:{tag}");
        let options = TagImageOptions { repo: Some("sandboxd-tests".into()), tag: Some(tag) };
        docker().await.tag_image(&home.config().image, Some(options)).await.unwrap();
        Self(name)
    }

    /// Containers created from it.
    async fn containers(&self) -> Vec<ContainerSummary> {
        let all = ListContainersOptions { all: true, ..Default::default() };
        let all = docker().await.list_containers(Some(all)).await.unwrap();
        all.into_iter().filter(|container| container.image.as_ref() == Some(&self.0)).collect()
    }
}

impl Drop for OwnImage {
    fn drop(&mut self) {
        let name = self.0.clone();
        let remove = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let _ = docker().await.remove_image(&name, None::<RemoveImageOptions>, None).await;
            });
        };
        let _ = std::thread::spawn(remove).join();
    }
}

/// Volumes that have this instance's id as a label or in their name.
async fn volumes_of(instance: &str) -> Vec<String> {
    let volumes = docker().await.list_volumes(None::<ListVolumesOptions>).await.unwrap().volumes;
    let is_its = |labels: &HashMap<String, String>| labels.values().any(|value| value == instance);
    let its = volumes.unwrap_or_default().into_iter();
    let its = its.filter(|volume| volume.name.contains(instance) || is_its(&volume.labels));
    its.map(|volume| volume.name).collect()
}

async fn doctor(home: &Home, settings: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = home.program(&[&["doctor"], args].concat());
    command.env("SANDBOXD_PORT", free_port().to_string());
    command.envs(settings.iter().copied()).output().await.unwrap()
}

/// The findings of one check, as `level: message -> advice`.
async fn findings(home: &Home, settings: &[(&str, &str)], check: &str) -> Vec<String> {
    let output = doctor(home, settings, &["--json"]).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], output.status.success(), "{report}");
    let checks = report["checks"].as_array().unwrap();
    for found in checks {
        assert_eq!(found["level"] == "ok", found["fix"].is_null(), "every problem has advice: {found}");
    }
    let of_it = checks.iter().filter(|found| found["check"] == check);
    let words = |found: &Value, key: &str| found[key].as_str().unwrap_or_default().to_owned();
    of_it
        .map(|found| {
            format!("{}: {} -> {}", words(found, "level"), words(found, "found"), words(found, "fix"))
        })
        .collect()
}

#[track_caller]
fn one(found: &[String], level: &str, words: &str) {
    let fits = |found: &String| found.starts_with(&format!("{level}: ")) && found.contains(words);
    assert!(found.iter().any(fits), "no {level} with {words:?} in {found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_no_fault_on_a_healthy_machine_and_leaves_nothing() {
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
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "it leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_a_running_daemon_and_checks_its_token() {
    let daemon = Daemon::start().await;
    let at = ("SANDBOXD_URL", daemon.base.as_str());
    one(&findings(&daemon.home, &[at], "daemon").await, "ok", "is ready");
    one(&findings(&daemon.home, &[at], "daemon's token").await, "ok", "the daemon accepts");
    let other = ("SANDBOXD_ADMIN_TOKEN", "another-token-of-at-least-32-characters");
    one(&findings(&daemon.home, &[at, other], "daemon's token").await, "warning", "rejects");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_doctor_leaves_nothing() {
    let home = Home::new();
    let image = OwnImage::of(&home).await;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = home.program(&["doctor"]);
        command.env("SANDBOXD_PORT", free_port().to_string()).env("SANDBOXD_IMAGE", &image.0);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let instance = Mutex::new(String::new());
        until("the doctor tests a disk", || async {
            let found = image.containers().await;
            let helper = found
                .iter()
                .find(|one| one.names.iter().flatten().any(|name| name.contains("sandboxd-disks-")));
            let labels = helper.and_then(|helper| helper.labels.clone()).unwrap_or_default();
            *instance.lock().unwrap() = labels.get("sandboxd.instance").cloned().unwrap_or_default();
            helper.is_some()
        })
        .await;
        kill_process(Pid::from_raw(child.id().unwrap().cast_signed()).unwrap(), signal).unwrap();
        let output = timeout(SOON, child.wait_with_output()).await.expect("it does not end").unwrap();
        let instance = instance.into_inner().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(volumes_of(&instance).await, Vec::<String>::new());
        assert_eq!(image.containers().await, Vec::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_doctors_do_not_disturb_each_other() {
    let home = Home::new();
    let image = OwnImage::of(&home).await;
    let settings = [("SANDBOXD_IMAGE", image.0.as_str())];
    let quota = || findings(&home, &settings, "quota");
    let (one, two, three) = tokio::join!(quota(), quota(), quota());
    for found in [one, two, three] {
        assert_eq!(found, ["ok: each workspace gets a file system of its own -> "]);
    }
    assert_eq!(image.containers().await, Vec::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_check_gives_advice_for_its_cause() {
    let home = Home::new();
    let proxy = EngineProxy::start();
    let socket = proxy.socket().to_string_lossy().into_owned();
    let image = OwnImage::of(&home).await;
    let settings = [("SANDBOXD_DOCKER_SOCKET", socket.as_str()), ("SANDBOXD_IMAGE", &image.0)];
    for (call, found, fix) in [
        ("/containers/create?name=sandboxd-agent-upload", "could not test", "journalctl -u docker"),
        ("/containers/create?name=sandboxd-disks", "could not test", "journalctl -u docker"),
        // The engine mounts the disk in this call.
        ("-probe/archive", "workspaces have no hard limit", "modprobe ext4"),
    ] {
        proxy.set(call, Fault::Fail);
        let reported = findings(&home, &settings, "quota").await;
        one(&reported, "warning", found);
        assert!(reported[0].contains(fix), "{call}: {reported:?}");
        proxy.clear_faults();
        assert_eq!(image.containers().await, Vec::new(), "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_does_not_respond_is_distinguished_from_another_program() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", mute.local_addr().unwrap());
    one(&findings(&Home::new(), &[("SANDBOXD_URL", &url)], "daemon").await, "fault", "accepts connections");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_problem_is_reported_with_advice() {
    let home = Home::new();
    let path = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    one(&findings(&home, &[("SANDBOXD_PROT", "1")], "settings").await, "warning", "SANDBOXD_PROT");
    one(&findings(&home, &[("SANDBOXD_MAX_CONCURRENT", "x")], "settings").await, "fault", "MAX_CONCURRENT");
    let no_socket = path("no.sock");
    one(&findings(&home, &[("SANDBOXD_DOCKER_SOCKET", &no_socket)], "engine").await, "fault", "no.sock");
    one(
        &findings(&home, &[("SANDBOXD_AGENT_PATH", "/bin/sh")], "agent").await,
        "fault",
        "dynamically linked",
    );
    one(&findings(&home, &[("SANDBOXD_AGENT_PATH", "/etc/passwd")], "agent").await, "fault", "not a 64-bit");
    one(&findings(&home, &[("SANDBOXD_RUNTIME", "nope")], "oci runtime").await, "fault", "nope");
    one(&findings(&home, &[("SANDBOXD_ADMIN_TOKEN", "short")], "token").await, "warning", "short");
    let no_image = [("SANDBOXD_IMAGE", "sandboxd-tests/none"), ("SANDBOXD_DISABLE_AUTOBUILD", "1")];
    one(&findings(&home, &no_image, "image").await, "fault", "missing");
    std::fs::create_dir(path("open")).unwrap();
    std::fs::set_permissions(path("open"), PermissionsExt::from_mode(0o755)).unwrap();
    one(&findings(&home, &[("SANDBOXD_STATE_DIR", &path("open"))], "state dir").await, "warning", "755");
    std::fs::write(path("file"), "").unwrap();
    let below = path("file/state");
    one(&findings(&home, &[("SANDBOXD_STATE_DIR", &below)], "state dir").await, "fault", "cannot be created");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    // The kernel accepts the connection and no program responds. The doctor looks for a daemon elsewhere and reports
    // this port as taken.
    let away = format!("http://127.0.0.1:{}", free_port());
    let settings = [("SANDBOXD_PORT", port.as_str()), ("SANDBOXD_URL", &away)];
    one(&findings(&home, &settings, "daemon").await, "fault", "cannot listen");
}

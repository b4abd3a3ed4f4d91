//! npm packages.

use sandbox_api::ErrorCode;
use sandbox_api::repository::{RepositoryRan, RunInRepository};
use test_git::GitServer;

use super::{home, in_repository};
use crate::support::harness::Daemon;

const VERSIONS: &str = "echo 1 >file; git add .; git commit -qm one; git tag v1.0.0; git rev-parse HEAD
    echo 2 >file; git add .; git commit -qm two; git tag @scope/tool@2.0.0; echo 3 >file; git commit -qam three";

async fn run(daemon: &Daemon, package: &str, version: Option<&str>) -> Result<RepositoryRan, ErrorCode> {
    let version = version.map(str::to_owned);
    let request = RunInRepository { version, ..in_repository(package, "cat file") };
    daemon.client.run_in_repository(&request).await.map_err(|error| error.code().unwrap())
}

#[tokio::test]
async fn a_version_of_a_package_is_found() {
    let Some(server) = GitServer::start().await else { return };
    let commits = server.repository("owner/name", VERSIONS).await;
    let first = commits.trim();
    let manifest = |version: &str, head: &str| {
        let repository = r#"{"type":"git","url":"git+ssh://git@git.example/owner/name.git"}"#;
        format!(r#"{{"name":"tool","version":"{version}","gitHead":"{head}","repository":{repository}}}"#)
    };
    server.publish("tool", "latest", &manifest("1.0.0", first));
    server.publish("tool", "1.0.0", &manifest("1.0.0", first));
    // The repository does not have this commit.
    server.publish("tool", "1.0.0-lost", &manifest("1.0.0", &"0123456789".repeat(4)));
    server.publish("tool", "9.0.0", &manifest("9.0.0", "no hash"));
    server.publish("@scope/tool", "2.0.0", &manifest("2.0.0", ""));
    server.publish("homeless", "latest", r#"{"version":"1.0.0","repository":"file:///etc"}"#);
    let daemon = Daemon::start_in(home(&server)).await;

    let latest = run(&daemon, "tool", None).await.unwrap();
    assert_eq!((latest.stdout.as_str(), latest.resolved_version.as_deref()), ("1\n", Some("1.0.0")));
    assert_eq!(latest.resolved_ref, first);
    assert!(run(&daemon, "tool", Some("1.0.0")).await.unwrap().cached);
    let by_tag = run(&daemon, "tool", Some("1.0.0-lost")).await.unwrap();
    assert_eq!((by_tag.resolved_ref.as_str(), by_tag.tags.as_slice()), (first, &["v1.0.0".to_owned()][..]));
    let scoped = run(&daemon, "@scope/tool", Some("2.0.0")).await.unwrap();
    assert_eq!((scoped.stdout.as_str(), scoped.resolved_version.as_deref()), ("2\n", Some("2.0.0")));

    for (package, version, wanted) in [
        ("tool", Some("3.0.0"), ErrorCode::VersionNotFound),
        ("tool", Some("9.0.0"), ErrorCode::VersionNotFound),
        ("nothing", None, ErrorCode::RepoNotFound),
        ("homeless", None, ErrorCode::RepoNotFound),
    ] {
        assert_eq!(run(&daemon, package, version).await.unwrap_err(), wanted, "{package} {version:?}");
    }
}

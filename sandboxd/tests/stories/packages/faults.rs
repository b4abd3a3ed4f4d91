//! Requests for packages that are not available.

use sandbox_api::ErrorCode;
use sandbox_api::context::{Language, OpenContext};
use sandbox_api::sandbox::{ListSandboxes, Network};
use test_git::NAME;

use super::{created, home, server, with_packages};
use crate::support::harness::Daemon;

#[tokio::test]
async fn each_reason_has_a_code() {
    let Some(server) = server().await else { return };
    server.publish_file("sources", "sources-1.0.tar.gz");
    server.publish_file("elsewhere", "elsewhere-1.0-cp313-cp313-win_amd64.whl");
    server.publish_wheel("orphan", "1.0", &[("orphan.py", "")], &["nothing>=1"]);
    let daemon = Daemon::start_in(home(&server)).await;
    for (packages, code, detail) in [
        (&["unknown"][..], ErrorCode::PackageNotFound, ("package", "unknown")),
        (&["orphan"], ErrorCode::PackageNotFound, ("package", "nothing")),
        (&["sources"], ErrorCode::NoWheel, ("package", "sources")),
        (&["elsewhere"], ErrorCode::NoWheel, ("explanation", "elsewhere")),
        (&["shapes>=3"], ErrorCode::VersionNotFound, ("explanation", "shapes")),
        (&["shapes>=2", "shapes<2"], ErrorCode::VersionNotFound, ("explanation", "shapes")),
        (&["shapes", "--pre"], ErrorCode::InvalidRequest, ("field", "packages[1]")),
        (&["https://git.example/a.whl"], ErrorCode::InvalidRequest, ("field", "packages[0]")),
        (&["shapes"; 65], ErrorCode::InvalidRequest, ("field", "packages")),
    ] {
        let error = daemon.client.create_or_reconnect(&with_packages("chat:1", packages)).await.unwrap_err();
        assert_eq!(error.code(), Some(code), "{packages:?}: {error:?}");
        let found = error.body().unwrap().details[detail.0].as_str().unwrap();
        assert!(found.contains(detail.1), "{packages:?}: {found}");
    }
    let left = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_sandbox_that_must_not_reach_the_index_gets_no_packages() {
    let Some(server) = server().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let request = |key: &str, mode: &str, allow: &[&str]| {
        let allow = allow.iter().map(|host| (*host).to_owned()).collect();
        let network = Network { mode: Some(mode.into()), allow: Some(allow) };
        sandbox_api::sandbox::CreateSandbox { network: Some(network), ..with_packages(key, &["shapes"]) }
    };
    for refused in [request("chat:1", "none", &[]), request("chat:1", "allowlist", &["other.example"])] {
        let error = daemon.client.create_or_reconnect(&refused).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Refused), "{error:?}");
        assert_eq!(error.body().unwrap().details["host"], NAME);
    }
    assert!(server.requests().is_empty(), "nothing was asked");
    let allowed = created(&daemon, &request("chat:2", "allowlist", &[NAME])).await;
    assert_eq!(daemon.output(&allowed, "shapes").await, "shapes 2.0 lines\n");

    // Also when the set is known.
    let mut without = request("chat:3", "none", &[]);
    without.packages = None;
    let sandbox = created(&daemon, &without).await;
    let context = OpenContext { packages: Some(vec!["shapes".into()]), ..OpenContext::new(Language::Python) };
    let error = daemon.client.open_context(&sandbox, &context).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Refused), "{error:?}");
}

#[tokio::test]
async fn packages_can_be_turned_off_and_are_not_combined_with_other_files() {
    let Some(server) = server().await else { return };
    let daemon = Daemon::start_in(home(&server).set("SANDBOXD_PACKAGES_MB", "0")).await;
    let error = daemon.client.create_or_reconnect(&with_packages("chat:1", &["shapes"])).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Refused));
    let workspace = Some(sandbox_api::sandbox::WorkspaceSource::repository("owner/name"));
    let both = sandbox_api::sandbox::CreateSandbox { workspace, ..with_packages("chat:1", &["shapes"]) };
    let error = daemon.client.create_or_reconnect(&both).await.unwrap_err();
    assert_eq!(error.body().unwrap().details["field"], "packages");
}

//! Packages without a wheel, which are built from source code.

use sandbox_api::ErrorCode;
use sandbox_api::context::{Language, OpenContext};
use test_git::{GitServer, NAME, TOKEN};

use super::{created, home, server, with_packages};
use crate::support::harness::Daemon;

/// A build backend without requirements (PEP 517). It compiles a library, and looks whether it reaches the internet.
const BACKEND: &str = r#"
import os, socket, subprocess, zipfile
def build_wheel(directory, settings=None, metadata=None):
    open("answer.c", "w").write("int answer(void) { return 42; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "answer.so", "answer.c"], check=True)
    try:
        socket.create_connection(("1.1.1.1", 443), timeout=3)
        reached = True
    except OSError:
        reached = False
    name = "built-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        wheel.write("answer.so", "built/answer.so")
        wheel.writestr("built/__init__.py", f"""
import ctypes, lines, os
REACHED = {reached}
ANSWER = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "answer.so")).answer()
""")
        info = "built-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: built\nVersion: 1.0\nRequires-Dist: lines>=1\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"#;

const PROJECT: &str = "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";

const INFO: &str = "Metadata-Version: 2.1\nName: built\nVersion: 1.0\n";

fn publish(server: &GitServer, version: &str, backend: &str) {
    let files = [("pyproject.toml", PROJECT), ("PKG-INFO", INFO), ("backend.py", backend)];
    server.publish_source("built", version, &files);
}

#[tokio::test]
async fn a_package_without_a_wheel_is_built_once() {
    let Some(server) = server().await else { return };
    publish(&server, "1.0", BACKEND);
    let daemon = Daemon::start_in(home(&server)).await;
    let first = created(&daemon, &with_packages("chat:1", &["built"])).await;
    let run = "python3 -c 'import built; print(built.ANSWER, built.REACHED, built.lines.NAME)'";
    assert_eq!(daemon.output(&first, run).await, "42 False lines\n");
    assert_eq!(daemon.output(&first, "ls -A; ls -A $TMPDIR").await, "", "nothing of the build is left");

    let requests = server.requests().len();
    let second = created(&daemon, &with_packages("chat:2", &["built"])).await;
    assert_eq!(daemon.output(&second, run).await, "42 False lines\n");
    let plain = daemon.sandbox("chat:3").await;
    let context = OpenContext { packages: Some(vec!["built".into()]), ..OpenContext::new(Language::Python) };
    daemon.client.open_context(&plain, &context).await.unwrap();
    assert_eq!(server.requests().len(), requests, "the set is known");
}

#[tokio::test]
async fn a_wheel_is_better_than_a_newer_version_that_must_be_built() {
    let Some(server) = server().await else { return };
    server.publish_source("lines", "9.0", &[("pyproject.toml", PROJECT), ("backend.py", "import missing")]);
    publish(&server, "1.0", BACKEND);
    let daemon = Daemon::start_in(home(&server)).await;
    for packages in [&["shapes"][..], &["shapes", "built"]] {
        let key = format!("chat:{}", packages.len());
        let sandbox = created(&daemon, &with_packages(&key, packages)).await;
        assert_eq!(daemon.output(&sandbox, "shapes").await, "shapes 2.0 lines\n");
        let fetched = server.requests().iter().any(|(_, path, _)| path.ends_with("lines-9.0.tar.gz"));
        assert!(!fetched, "{:?}", server.requests());
    }
}

#[tokio::test]
async fn nothing_is_built_if_the_daemon_has_credentials_for_the_index() {
    let Some(server) = server().await else { return };
    publish(&server, "1.0", BACKEND);
    let home = home(&server).set("SANDBOXD_PACKAGE_INDEX", &format!("https://{NAME}/closed"));
    let daemon = Daemon::start_in(home.set("SANDBOXD_PACKAGE_TOKENS", &format!("{NAME}={TOKEN}"))).await;
    let error = daemon.client.create_or_reconnect(&with_packages("chat:1", &["built"])).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NoWheel), "{error:?}");
    assert!(!server.requests().iter().any(|(_, path, _)| path.ends_with(".tar.gz")));
}

#[tokio::test]
async fn a_build_that_fails_is_explained() {
    let Some(server) = server().await else { return };
    publish(&server, "1.0", "print('x' * 9000); raise SystemExit('no compiler for this')");
    let daemon = Daemon::start_in(home(&server)).await;
    let error = daemon.client.create_or_reconnect(&with_packages("chat:1", &["built"])).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NoWheel), "{error:?}");
    let details = &error.body().unwrap().details;
    assert_eq!(details["package"], "built");
    assert!(details["explanation"].as_str().unwrap().contains("no compiler for this"), "{details:?}");
    // A package that has wheels is not built.
    server.publish_wheel("built", "0.9", &[("built.py", "")], &[]);
    let error = daemon.client.create_or_reconnect(&with_packages("chat:1", &["built>=1"])).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::VersionNotFound), "{error:?}");
}

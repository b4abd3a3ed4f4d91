//! The base image that is built without a registry, on an engine without images.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use sandboxd::model::limits;
use tempfile::TempDir;

use crate::support::harness::Home;
use crate::support::private_engine::OwnEngine;

/// A directory of images whose base is built by the story's own script.
struct Images(TempDir);

impl Images {
    fn with(make_base: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let image = dir.path().join("node24");
        fs::create_dir(&image).unwrap();
        fs::write(image.join("Dockerfile"), "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n").unwrap();
        let script = dir.path().join("make-base");
        fs::write(&script, format!("#!/bin/sh\nset -e\n{make_base}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        Self(dir)
    }

    fn path(&self) -> PathBuf {
        self.0.path().into()
    }
}

async fn build_image(engine: &OwnEngine, make_base: &str) -> Output {
    let images = Images::with(make_base);
    let host = format!("unix://{}", engine.socket().display());
    let home =
        Home::new().set("DOCKER_HOST", &host).set("SANDBOXD_IMAGE_DIR", &images.path().to_string_lossy());
    home.program(&["build-image"]).output().await.unwrap()
}

/// A slow machine, or one far from its mirror, takes minutes. The engine reports nothing meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_takes_long_to_build_is_imported() {
    let engine = OwnEngine::start_empty();
    let slow = format!("sleep {}; tar --create /etc/hostname", limits::ENGINE_CALL.as_secs() + 1);
    let output = build_image(&engine, &slow).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The script also fails when its output is not read, and cannot report why.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_error_of_the_engine_is_reported() {
    let engine = OwnEngine::start_empty();
    let output = build_image(&engine, "cat /dev/zero | tr '\\0' x").await;
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("tar"), "{words}");
    assert!(!words.contains("make-base"), "{words}");

    let output = build_image(&engine, "echo no mirror >&2; exit 3").await;
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("make-base") && words.contains("no mirror"), "{words}");
}

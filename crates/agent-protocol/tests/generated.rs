//! The types in `src/generated` are those of the protocol. They are committed, because the first build on a user's machine
//! would otherwise compile a compiler of protocols first. After a change in `proto`, run
//! `GENERATE=1 cargo test -p agent-protocol --test generated`.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::Path;

/// The only file, named after the protocol's package.
const FILE: &str = "sandbox.agent.v1.rs";

/// Generates the types of the protocol. protox makes `protoc` unnecessary.
fn generate(into: &Path) {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let files = std::fs::read_dir(&proto).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|name| name == "proto")).collect();
    files.sort();
    let descriptors = protox::compile(files, [proto]).unwrap();
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".")
        .emit_rerun_if_changed(false)
        .out_dir(into)
        .compile_fds(descriptors)
        .unwrap();
}

#[test]
fn the_committed_types_are_those_of_the_protocol() {
    let dir = tempfile::tempdir().unwrap();
    generate(dir.path());
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [FILE]);
    let generated = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated").join(FILE);
    if std::env::var_os("GENERATE").is_some() {
        std::fs::write(&committed, generated).unwrap();
        return;
    }
    let is_same = std::fs::read_to_string(&committed).unwrap() == generated;
    assert!(is_same, "{} is out of date: GENERATE=1 writes it", committed.display());
}

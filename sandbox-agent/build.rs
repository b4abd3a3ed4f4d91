//! Compiles the library that lets bash wait (`src/waiting_shells/preload.c`). The agent carries it, because the images of
//! sandboxes do not have it.

use std::path::PathBuf;

const SOURCE: &str = "src/waiting_shells/preload.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("preload.so");
    let mut compiler = cc::Build::new().opt_level(2).pic(true).get_compiler().to_command();
    // Without the C library of this machine: the one of the image has the same functions.
    compiler
        .args([
            "-shared",
            "-nostdlib",
            "-s",
            "-U_FORTIFY_SOURCE",
            "-fno-stack-protector",
            "-Wall",
            "-Wextra",
            "-Werror",
            SOURCE,
            "-o",
        ])
        .arg(&out);
    let status = compiler.status().expect("a C compiler is installed");
    assert!(status.success(), "{SOURCE} cannot be compiled: {compiler:?}");
}

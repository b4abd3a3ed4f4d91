//! Compiles the protocol with protox, so that the build needs no `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = [
        "proto/agent.proto",
        "proto/files.proto",
        "proto/snapshots.proto",
        "proto/terminals.proto",
        "proto/tunnels.proto",
    ];
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().build_transport(false).bytes(".").compile_fds(descriptors)?;
    Ok(())
}

//! Package managers in a default sandbox without configuration, against the registries that this machine reaches.

use std::path::{Path, PathBuf};

use sandbox_client::WriteOptions;

use crate::support::harness::{Daemon, over_each_transport, skip};
use crate::support::network::{CA_BUNDLE, home, reaches};

#[tokio::test(flavor = "multi_thread")]
async fn npm_installs_a_package_and_node_fetches() {
    if !reaches("registry.npmjs.org").await {
        return;
    }
    let daemon = Daemon::start_in(home()).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let install = "npm install --no-audit --no-fund left-pad >&2 && node -p 'require(\"left-pad\")(7, 3, 0)'";
    assert_eq!(daemon.output(&sandbox, install).await, "007\n");
    let fetch = "node -e \"fetch('https://registry.npmjs.org/left-pad').then(r => console.log(r.status))\"";
    assert_eq!(daemon.output(&sandbox, fetch).await, "200\n");
    let listed = "curl -sS -m 60 -o /dev/null -w '%{http_code}' https://registry.npmjs.org/left-pad";
    assert_eq!(daemon.output(&sandbox, listed).await, "200");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_installs_with_a_list_that_names_its_registry() {
    if !reaches("registry.npmjs.org").await {
        return;
    }
    let daemon = Daemon::start_in(home()).await;
    let sandbox =
        crate::support::network::sandbox_with(&daemon, "chat:1", "allowlist", &["registry.npmjs.org"]).await;
    let install = "npm install --no-audit --no-fund left-pad >&2 && node -p 'require(\"left-pad\")(7, 3, 0)'";
    assert_eq!(daemon.output(&sandbox, install).await, "007\n");
    assert!(daemon.run(&sandbox, "curl -sS -m 20 https://pypi.org/").await.exit_code != 0);
    let denials = daemon.client.denials(&sandbox).await.unwrap().denials;
    assert_eq!(
        (denials[0].host.as_str(), denials[0].port, denials.len()),
        ("pypi.org", 443, 1),
        "{denials:?}"
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pip_installs_a_package() {
    if !reaches("pypi.org").await {
        return;
    }
    let daemon = Daemon::start_in(home()).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let install = "python3 -m venv v && v/bin/pip install -q --disable-pip-version-check six >&2 && \
                   v/bin/python -c 'import six; print(six.PY3)'";
    assert_eq!(daemon.output(&sandbox, install).await, "True\n");
    let urllib =
        "python3 -c \"import urllib.request as u; print(u.urlopen('https://pypi.org/simple/six/').status)\"";
    assert_eq!(daemon.output(&sandbox, urllib).await, "200\n");
    daemon.stop().await;
}

/// The `cargo` of this machine's toolchain, since a sandbox has none. Skips the test if it is missing.
fn cargo() -> Option<PathBuf> {
    // Cargo sets it to the program of the toolchain, not to the wrapper of rustup.
    let cargo = std::env::var_os("CARGO").map(PathBuf::from).filter(|path| path.is_file());
    if cargo.is_none() {
        skip("CARGO is not set: run this story with cargo");
    }
    cargo
}

#[tokio::test(flavor = "multi_thread")]
async fn cargo_finds_and_downloads_a_crate() {
    let Some(cargo) = cargo() else { return };
    if !reaches("index.crates.io").await || !reaches("static.crates.io").await {
        return;
    }
    let daemon = Daemon::start_in(home()).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let program = tokio::fs::read(cargo).await.unwrap();
    let executable = WriteOptions { mode: Some(0o755), ..WriteOptions::default() };
    daemon.client.put_file(&sandbox, "cargo", program, executable).await.unwrap();
    // `fetch` sends all requests to the registry without a compiler.
    let vendor = "mkdir -p it/src && cd it && touch src/lib.rs && \
                  printf '[package]\\nname = \"it\"\\nedition = \"2021\"\\n[dependencies]\\nitoa = \"1\"\\n' >Cargo.toml && \
                  ../cargo vendor >&2 && grep '^name' vendor/itoa/Cargo.toml | head -n 1";
    assert_eq!(daemon.output(&sandbox, vendor).await, "name = \"itoa\"\n");
    daemon.stop().await;
}

over_each_transport!(the_operators_certificates_are_in_each_sandbox_and_read_only);

async fn the_operators_certificates_are_in_each_sandbox_and_read_only(daemon: &Daemon) {
    // Without a bundle no variable is set. With one, every tool is configured, and the sandbox cannot change the file.
    let sandbox = daemon.sandbox("chat:1").await;
    assert_eq!(daemon.output(&sandbox, "env | grep -c ca-bundle; true").await, "0\n");
    if !Path::new(CA_BUNDLE).exists() {
        return skip(format!("there is no {CA_BUNDLE}"));
    }
    let transport = daemon.home.config().transport.unwrap();
    let daemon = Daemon::start_in(home().set("SANDBOXD_AGENT_TRANSPORT", transport.as_str())).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let reported = daemon.output(&sandbox, "env | grep ca-bundle | cut -d= -f1 | sort | tr '\\n' ' '").await;
    assert_eq!(
        reported,
        "CARGO_HTTP_CAINFO CURL_CA_BUNDLE GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS PIP_CERT REQUESTS_CA_BUNDLE \
         SSL_CERT_FILE npm_config_cafile "
    );
    let same = daemon.output(&sandbox, "sha256sum <$CURL_CA_BUNDLE | cut -d' ' -f1").await;
    use sha2::Digest;
    let digest = sha2::Sha256::digest(std::fs::read(CA_BUNDLE).unwrap());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(same.trim(), digest);
    let write = daemon.run(&sandbox, "echo x >>$CURL_CA_BUNDLE || rm -f $CURL_CA_BUNDLE").await;
    assert_ne!(write.exit_code, 0);
    daemon.stop().await;
}

//! `sandboxd mcp --print-config`: what it prints is read by the hosts' own code, where a package has it.

use std::path::Path;

use test_daemon::packages::{NpmPackages, run};

use crate::support::harness::Home;

/// The schema of LibreChat's configuration, with a parser of YAML.
const LIBRECHAT: &str = "librechat-data-provider@0.8.524";

async fn printed(home: &Home, host: &str) -> String {
    let args = ["mcp", "--print-config", host, "--url", "http://sandboxd:8080", "--profile", "chat"];
    let output = home.program(&args).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!output.stderr.is_empty(), "it says where the configuration goes");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_host_is_answered_with_the_known_ones() {
    let home = Home::new().set("SANDBOXD_ADMIN_TOKEN", "a-token-that-is-never-printed");
    let output = home.program(&["mcp", "--print-config", "emacs"]).output().await.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let hosts = ["claude-code", "claude-desktop", "cursor", "vscode", "codex", "librechat", "open-webui"];
    assert_eq!(output.status.code(), Some(2), "{text}");
    for host in hosts {
        assert!(text.contains(host), "{text}");
        let config = printed(&home, host).await;
        assert!(config.contains("sandboxd:8080") && !config.contains("never-printed"), "{config}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_in_yaml_are_valid() {
    let install = || {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("host-configs");
        NpmPackages::install(&directory, &[LIBRECHAT], None)
    };
    let Some(packages) = tokio::task::spawn_blocking(install).await.unwrap() else {
        return test_daemon::skip(format!("{LIBRECHAT} cannot be installed here"));
    };
    let home = Home::new();
    for (host, file) in [("librechat", "librechat.yaml"), ("open-webui", "docker-compose.yml")] {
        std::fs::write(packages.dir.join(file), printed(&home, host).await).unwrap();
    }
    let (is_valid, text) =
        run(packages.script("check.cjs", include_str!("published/host-configs.cjs"))).await;
    assert!(is_valid, "{text}");
}

//! `sandboxd mcp --print-config`: what it prints is read by the hosts' own code, where a package has it.

use std::path::Path;

use test_daemon::packages::{NpmPackages, run};

use crate::support::harness::Home;

/// The schema of LibreChat's configuration, with a parser of YAML.
const LIBRECHAT: &str = "librechat-data-provider@0.8.524";

/// What Anthropic, Microsoft and Cursor publish about their hosts' configurations, and the programs that check with it.
const SCHEMAS: [&str; 5] = [
    "@anthropic-ai/mcpb@2.1.2",
    "@codingame/monaco-vscode-api@37.6.1",
    "@cursor/sdk@1.0.32",
    "ajv@8.20.0",
    "typescript@5.9.3",
];

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

#[tokio::test(flavor = "multi_thread")]
async fn configurations_in_json_fit_the_schemas_of_their_hosts() {
    let install = || {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("host-schemas");
        NpmPackages::install(&directory, &SCHEMAS, None)
    };
    let Some(packages) = tokio::task::spawn_blocking(install).await.unwrap() else {
        return test_daemon::skip(format!("{SCHEMAS:?} cannot be installed here"));
    };
    let home = Home::new();
    for host in ["claude-desktop", "vscode", "cursor"] {
        std::fs::write(packages.dir.join(format!("{host}.json")), printed(&home, host).await).unwrap();
    }
    let (is_valid, text) =
        run(packages.script("check.mjs", include_str!("published/host-schemas.mjs"))).await;
    assert!(is_valid, "{text}");
}

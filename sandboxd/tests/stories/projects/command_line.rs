//! `sandboxd project`, `token` and `whoami`.

use std::process::Output;

use serde_json::Value;

use crate::support::harness::{Daemon, TOKEN};

async fn program(daemon: &Daemon, token: &str, args: &[&str]) -> Output {
    let args = [&args[..1], &["--url", &daemon.base], &args[1..]].concat();
    let mut program = daemon.home.program(&args);
    program.env("SANDBOXD_ADMIN_TOKEN", token).output().await.unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn projects_and_tokens_are_managed_on_the_command_line() {
    let daemon = Daemon::start().await;
    let operator = async |args: &[&str]| program(&daemon, TOKEN, args).await;
    assert_eq!(text(&operator(&["project", "create", "lab"]).await), "lab\n");
    let listed = text(&operator(&["project", "ls"]).await);
    assert!(listed.contains("\ndefault") && listed.contains("\nlab"), "{listed}");

    let set = ["project", "set", "lab", "--quota", "commands=3", "--quota", "networkModes=none|default"];
    assert_eq!(text(&operator(&set).await), "commands      3\nnetworkModes  none|default\n");
    assert_eq!(
        text(&operator(&["project", "set", "lab", "--quota", "networkModes="]).await),
        "commands  3\n"
    );
    let wrong = operator(&["project", "set", "lab", "--quota", "command=1"]).await;
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("`command` is not a quota"), "{wrong:?}");
    let usage = text(&operator(&["project", "usage", "lab"]).await);
    assert!(usage.lines().any(|line| line.split_whitespace().eq(["commands", "0", "3"])), "{usage}");

    let create = ["token", "create", "lab", "--subject", "ann", "--scope", "read", "--ttl", "1h"];
    let token = text(&operator(&create).await).trim().to_owned();
    assert!(token.starts_with("sbt_") && token.lines().count() == 1, "{token}");
    let whoami = text(&program(&daemon, &token, &["whoami"]).await);
    assert!(whoami.contains("lab") && whoami.contains("ann") && whoami.contains("read"), "{whoami}");
    let refused = program(&daemon, &token, &["project", "create", "other"]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");

    let json = text(&operator(&["token", "ls", "lab", "--json"]).await);
    let json: Value = serde_json::from_str(&json).unwrap();
    let id = json["tokens"][0]["tokenId"].as_str().unwrap();
    assert!(text(&operator(&["token", "ls", "lab"]).await).contains(id));
    assert!(text(&operator(&["token", "revoke", "lab", id]).await).contains("revoked"));
    assert_eq!(program(&daemon, &token, &["whoami"]).await.status.code(), Some(1));
    daemon.stop().await;
}

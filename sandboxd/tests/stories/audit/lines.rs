//! Which lines acts leave.

use sandbox_api::audit::ListAudit;
use sandbox_api::context::{Language, OpenContext, RunCode};
use sandbox_api::project::CreateToken;
use sandbox_api::sandbox::{Checkpoints, CreateSandbox, Network};
use sandbox_api::snapshot::MakeSnapshot;
use sandbox_api::{ErrorCode, REQUEST_ID_HEADER};
use sandbox_client::Client;
use serde_json::json;

use super::{checked, last_act, lines_of};
use crate::support::harness::{Daemon, Home, until};
use crate::support::http::HttpClient;
use crate::support::runs::{Interpreter, rest_of};

#[tokio::test(flavor = "multi_thread")]
async fn an_act_has_a_line_before_it_and_one_with_its_outcome() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let answer = api.post("/v1/projects", &json!({ "name": "lab" })).await;
    let [before, outcome] = last_act(&daemon, "project.create").await;
    let request_id = Some(answer.header(REQUEST_ID_HEADER).to_owned());
    assert_eq!((&before.request_id, &outcome.request_id), (&request_id, &request_id));
    assert_eq!((before.outcome, outcome.outcome.as_deref()), (None, Some("ok")));
    assert_eq!((before.token.as_deref(), before.project.as_deref()), (Some("admin"), Some("default")));
    assert_eq!(outcome.details["project"], "lab");

    // A token's line has its properties and not its secret.
    let request = CreateToken { subject: Some("ann".into()), ..CreateToken::default() };
    let token = daemon.client.create_token("lab", &request).await.unwrap();
    let [before, outcome] = last_act(&daemon, "token.create").await;
    assert_eq!(before.details["project"], "lab");
    assert_eq!(outcome.details["properties"]["tokenId"], token.properties.token_id.as_str());
    let text = std::fs::read_to_string(super::dir_of(&daemon.home).join("audit-00000001.ndjson")).unwrap();
    assert!(!text.contains(token.token.rsplit('_').next().unwrap()), "the record has the secret of a token");

    // Acts of others name them, and refusals have the code of their error.
    let ann = Client::new(&daemon.base, &token.token).unwrap();
    ann.create_project("other").await.unwrap_err();
    let [before, outcome] = last_act(&daemon, "project.create").await;
    assert_eq!((before.project.as_deref(), before.subject.as_deref()), (Some("lab"), Some("ann")));
    assert_eq!(before.token.as_deref(), Some(token.properties.token_id.as_str()));
    assert_eq!(outcome.outcome.as_deref(), Some("forbidden"));
    assert!(checked(&daemon.home).await.is_intact());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_sandbox_is_recorded() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let is_of = |line: &sandbox_api::audit::AuditLine| line.details.get("sandboxId") == Some(&json!(sandbox));
    assert!(is_of(&last_act(&daemon, "sandbox.create").await[1]));

    daemon.output(&sandbox, "echo secret words").await;
    let [before, outcome] = last_act(&daemon, "command.start").await;
    assert!(is_of(&before) && before.details["argvMac"].as_str().unwrap().len() == 64, "{before:?}");
    assert_eq!((before.details.get("argv"), outcome.outcome.as_deref()), (None, Some("ok")));
    daemon.output(&sandbox, "echo secret words").await;
    let again = last_act(&daemon, "command.start").await[0].clone();
    assert_eq!(again.details["argvMac"], before.details["argvMac"], "the same command has the same hash");

    let request = OpenContext::new(Language::Bash);
    let context = daemon.client.open_context(&sandbox, &request).await.unwrap().context_id;
    let [before, outcome] = last_act(&daemon, "context.open").await;
    assert!(is_of(&before) && outcome.details["contextId"] == context.as_str(), "{outcome:?}");
    let run = RunCode::new("echo secret words");
    assert!(rest_of(daemon.client.run_code(&sandbox, &context, &run).await.unwrap()).await.is_ok());
    let [before, outcome] = last_act(&daemon, "context.run").await;
    assert!(is_of(&before) && before.details["codeMac"].as_str().unwrap().len() == 64, "{before:?}");
    assert_eq!((before.details.get("code"), outcome.outcome.as_deref()), (None, Some("ok")));

    let network = Network { mode: Some("none".into()), ..Network::default() };
    daemon.client.change_network(&sandbox, &network).await.unwrap();
    assert_eq!(last_act(&daemon, "network.change").await[1].details["network"]["mode"], "none");
    daemon.client.park(&sandbox, false).await.unwrap();
    assert!(is_of(&last_act(&daemon, "sandbox.park").await[0]));
    // A read wakes it. The daemon does that by itself, and it has one line.
    assert_eq!(daemon.client.read_file(&sandbox, "missing").await.unwrap(), None);
    let woken = lines_of(&daemon.client, "sandbox.wake").await;
    assert!(is_of(&woken[0]) && woken[0].token.is_none(), "{woken:?}");
    assert_eq!((woken.len(), woken[0].outcome.as_deref()), (1, Some("ok")));
    daemon.client.delete(&sandbox).await.unwrap();
    assert!(is_of(&last_act(&daemon, "sandbox.delete").await[0]));

    let home = daemon.stop().await;
    let report = checked(&home).await;
    assert!(report.is_intact() && report.torn == 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_commands_is_recorded_where_the_operator_wants_it() {
    let home = Home::new().set("SANDBOXD_AUDIT_COMMANDS", "text");
    let daemon = Daemon::start_in(home).await;
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        env: Some([("API_KEY".to_owned(), "0123456789".to_owned())].into()),
        secret_env: Some(vec!["API_KEY".into()]),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.create(&request).await;
    daemon.output(&sandbox, "echo 0123456789 | wc -c").await;
    let argv = &last_act(&daemon, "command.start").await[0].details["argv"];
    assert_eq!(*argv, json!(["bash", "-c", "echo [API_KEY] | wc -c"]));
    Interpreter::open(&daemon, &sandbox, Language::Bash).await.run("echo 0123456789").await;
    assert_eq!(last_act(&daemon, "context.run").await[0].details["code"], "echo [API_KEY]");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_operator_reads_the_record_in_pages() {
    let daemon = Daemon::start().await;
    for project in ["one", "two", "three"] {
        daemon.client.create_project(project).await.unwrap();
    }
    let (mut seqs, mut query) = (Vec::new(), ListAudit { limit: Some(2), ..ListAudit::default() });
    loop {
        let page = daemon.client.audit(&query).await.unwrap();
        seqs.extend(page.lines.iter().map(|line| line.seq));
        let Some(next) = page.next_cursor else { break };
        query.cursor = Some(next);
    }
    assert_eq!(seqs, (1..=*seqs.first().unwrap()).rev().collect::<Vec<_>>());
    assert!(lines_of(&daemon.client, "project").await.len() == 6);
    assert!(lines_of(&daemon.client, "proj").await.is_empty());

    let token = daemon.client.create_token("one", &CreateToken::default()).await.unwrap();
    let of_project = Client::new(&daemon.base, &token.token).unwrap();
    let query = ListAudit { project: Some("one".into()), ..ListAudit::default() };
    assert_eq!(of_project.audit(&query).await.unwrap_err().code(), Some(ErrorCode::Forbidden));
    assert!(daemon.client.audit(&query).await.unwrap().lines.is_empty());
    let api = HttpClient::of(&daemon);
    for (query, field) in [("cursor=x", "cursor"), ("limit=0", "limit"), ("limit=1001", "limit")] {
        api.get(&format!("/v1/audit?{query}")).await.faults(field, query);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_counted_for_each_address() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    for _ in 0..5 {
        let request = api.without_token("GET", "/v1/sandboxes").header("authorization", "Bearer wrong");
        assert_eq!(request.send().await.unwrap().status(), 401);
    }
    // The stop writes what was counted.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    until("the failures are recorded", || async {
        let lines = lines_of(&daemon.client, "auth.fail").await;
        lines.iter().any(|line| line.details["count"] == 5 && line.details["peer"] == "127.0.0.1")
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_has_ended_commands_newest_first() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for code in 0..3 {
        daemon.run(&sandbox, &format!("exit {code}")).await;
    }
    daemon.client.park(&sandbox, false).await.unwrap();
    let found = daemon.client.history(&sandbox, None).await.unwrap();
    let seen: Vec<_> = found.commands.iter().map(|entry| (entry.seq, entry.command.exit_code)).collect();
    assert_eq!(seen, [(3, Some(2)), (2, Some(1)), (1, Some(0))]);
    let first = &found.commands[2].command;
    assert_eq!((first.cmd.as_str(), &first.args[1]), ("bash", &"exit 0".to_owned()));
    assert!(first.ended_at.is_some() && found.next_cursor.is_none());
    let rest = daemon.client.history(&sandbox, Some("2")).await.unwrap();
    assert_eq!(rest.commands, found.commands[2..]);
    let api = HttpClient::of(&daemon);
    for query in ["cursor=x", "cursor=01"] {
        api.get(&format!("/v1/sandboxes/{sandbox}/history?{query}")).await.faults("cursor", query);
    }
    daemon.client.delete(&sandbox).await.unwrap();
    assert_eq!(daemon.client.history(&sandbox, None).await.unwrap_err().code(), Some(ErrorCode::NotFound));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_create_changes_and_a_delete_takes_along_is_recorded() {
    let daemon = Daemon::start().await;
    let request = |mode: &str| CreateSandbox {
        session_key: "chat:1".into(),
        network: Some(Network { mode: Some(mode.into()), ..Network::default() }),
        checkpoints: Some(Checkpoints { after_command: Some(true), every_ms: None, keep: Some(1) }),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.create(&request("allowlist")).await;
    daemon.client.create_or_reconnect(&request("none")).await.unwrap();
    let outcome = &last_act(&daemon, "sandbox.create").await[1];
    assert_eq!(
        (&outcome.details["created"], &outcome.details["network"]["mode"]),
        (&json!(false), &json!("none"))
    );

    let deleted_for = async |reason: &str| {
        let lines = lines_of(&daemon.client, "snapshot.delete").await;
        lines.into_iter().filter(|line| line.details.get("reason") == Some(&json!(reason))).count()
    };
    for round in 0..2 {
        daemon.output(&sandbox, &format!("echo {round} > file")).await;
        until("a checkpoint is made", || async {
            let made = daemon.client.snapshots(&sandbox, None).await.unwrap().snapshots;
            made.len() == 1 && (round == 0 || deleted_for("surplus checkpoint").await == 1)
        })
        .await;
    }
    daemon.client.make_snapshot(&sandbox, &MakeSnapshot::default()).await.unwrap();
    daemon.client.delete_with_snapshots(&sandbox).await.unwrap();
    assert_eq!(deleted_for("sandbox deleted").await, 2);
    let line = &lines_of(&daemon.client, "snapshot.delete").await[0];
    assert_eq!((line.outcome.as_deref(), line.project.as_deref()), (Some("ok"), Some("default")));
    daemon.stop().await;
}

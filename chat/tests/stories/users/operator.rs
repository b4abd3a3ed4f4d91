//! The operator's commands, as processes beside a server.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::test_app::{Chunks, TestApp};
use crate::users::{Person, cookie_of, sign_in};
use chat::account::Role;

/// Runs `chat user …` on the server's database.
async fn user(app: &TestApp, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chat"));
    command.arg("user").args(args).env_clear().env("CHAT_STATE_DIR", app.state_dir());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let run = move || {
        let mut child = command.spawn()?;
        // A command that reads no input may have ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output()
    };
    tokio::task::spawn_blocking(run).await.unwrap().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_manages_accounts_while_the_chat_runs() {
    let app = TestApp::start().await;
    let refused = user(&app, &["add", "bob"], "").await;
    assert!(!refused.status.success());
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("bob was not added: there must be an admin"), "{message}");

    let password = text(&user(&app, &["add", "ann", "--admin"], "").await);
    cookie_of(&sign_in(&app, "ann", password.trim()).send().await.unwrap());
    let given = "a password of the operator";
    assert_eq!(text(&user(&app, &["add", "bob", "--password-stdin"], &format!("{given}\n")).await), "");
    let response = sign_in(&app, "bob", given).send().await.unwrap();
    let found = app.people.named(&"bob".parse().unwrap()).await.unwrap();
    let bob = Person { user: found, cookie: cookie_of(&response) };
    let listed = text(&user(&app, &["ls"], "").await);
    assert!(listed.starts_with("ann  admin") && listed.contains("\nbob  user "), "{listed}");

    // His command ends within seconds, although another process disables him.
    let running = bob.sends(app.say("1", "/bash echo begun; sleep 100")).send().await.unwrap();
    let mut reported = Chunks::new(running);
    while reported.next().await.unwrap()["output"]["stdout"] != "begun\n" {}
    text(&user(&app, &["disable", "bob"], "").await);
    while reported.next().await.is_some() {}
    assert!(!reported.is_done, "the stream was cut");
    assert_eq!(sign_in(&app, "bob", given).send().await.unwrap().status(), 401);
    assert!(text(&user(&app, &["ls"], "").await).contains("disabled"));

    text(&user(&app, &["enable", "bob"], "").await);
    assert_eq!(bob.gets(&app, "/api/chats").await.0, 401, "his session has ended");
    let reset = text(&user(&app, &["reset", "bob"], "").await);
    assert_eq!(sign_in(&app, "bob", given).send().await.unwrap().status(), 401);
    cookie_of(&sign_in(&app, "bob", reset.trim()).send().await.unwrap());
    assert_eq!(app.people.named(&"bob".parse().unwrap()).await.unwrap().role, Role::User);

    let last = user(&app, &["disable", "ann"], "").await;
    assert!(!last.status.success(), "the last admin stays");
}

//! Sessions: a chat keeps one sandbox while it is used, and its files for longer.

use std::time::Duration;

use bash_tools::session::{Error, SessionLimits, SessionState, Sessions};
use bash_tools::tools::Toolkit;
use futures::StreamExt;
use futures::future::join_all;
use sandbox_api::project::CreateChildToken;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use std::sync::Arc;
use test_daemon::{Daemon, until};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Fixture, command, key, limits, over_each_provider, run, sandboxd};

over_each_provider!(
    concurrent_calls_share_one_sandbox,
    chats_do_not_see_each_other,
    chats_of_subjects_do_not_see_each_other,
    the_longest_idle_session_is_parked_for_another_and_keeps_its_files,
    a_session_in_use_is_not_parked,
    a_lost_sandbox_is_recreated,
    a_session_can_be_opened_in_advance,
    a_deleted_chat_leaves_nothing,
    an_idle_session_is_released,
    a_caller_that_disconnects_does_not_affect_others,
);

fn tools(sessions: &Sessions, chat: &str) -> Toolkit {
    Toolkit::new(sessions.clone(), key(chat), limits())
}

async fn concurrent_calls_share_one_sandbox(fixture: &Fixture) {
    let sessions = fixture.sessions(2);
    let key = key("1");
    let leases = join_all((0..20).map(|_| sessions.lease(&key))).await;
    let first = leases[0].as_ref().unwrap().sandbox().clone();
    assert!(leases.iter().all(|lease| *lease.as_ref().unwrap().sandbox() == first));
    let again = fixture.sessions(2).lease(&key).await.unwrap().sandbox().clone();
    assert_eq!(again, first, "after a restart of the app");
}

async fn chats_do_not_see_each_other(fixture: &Fixture) {
    let sessions = fixture.sessions(2);
    run(&tools(&sessions, "1"), "echo mine >secret").await;
    assert_eq!(run(&tools(&sessions, "2"), "cat secret 2>/dev/null; ls | wc -l").await.stdout.trim(), "0");
}

async fn chats_of_subjects_do_not_see_each_other(fixture: &Fixture) {
    let sessions = fixture.sessions(3);
    let of = |subject: &str| key("1").of_subject(subject.parse().unwrap()).unwrap();
    for key in [key("1"), of("ann"), of("bob")] {
        let tools = Toolkit::new(sessions.clone(), key.clone(), limits());
        let seen = run(&tools, "ls; touch mine; echo done").await.stdout;
        assert_eq!(seen, "done\n", "{key} {:?}", key.subject());
    }
    sessions.delete(&of("bob")).await.unwrap();
    for (key, is_there) in [(key("1"), true), (of("ann"), true), (of("bob"), false)] {
        let found = fixture.provider.find(&key).await.unwrap();
        assert_eq!(found.is_some(), is_there, "{key} {:?}", key.subject());
        let Some(found) = found else { continue };
        assert_eq!(fixture.provider.status(&found).await.unwrap().sandbox, found);
    }
}

/// Anyone with a token of the project may choose the session key of a chat.
#[tokio::test(flavor = "multi_thread")]
async fn a_chat_does_not_find_the_sandbox_that_a_subject_made_with_its_key() {
    let daemon = Daemon::start().await;
    let request = CreateChildToken { subject: Some("eve".into()), ..CreateChildToken::default() };
    let token = daemon.client.create_child_token(&request).await.unwrap().token;
    let eve = Client::new(&daemon.base, &token).unwrap();
    let request = CreateSandbox { session_key: key("1").as_str().into(), ..CreateSandbox::default() };
    let of_eve = eve.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let provider = sandboxd(daemon.client.clone());
    assert!(provider.find(&key("1")).await.unwrap().is_none());
    let opened = provider.open(&key("1")).await.unwrap().sandbox;
    assert_ne!(opened.as_str(), of_eve.as_str());
    assert_eq!(provider.find(&key("1")).await.unwrap(), Some(opened));
    daemon.stop().await;
}

async fn the_longest_idle_session_is_parked_for_another_and_keeps_its_files(fixture: &Fixture) {
    let sessions = fixture.sessions(2);
    run(&tools(&sessions, "1"), "echo one >file").await;
    run(&tools(&sessions, "2"), "echo two >file").await;
    run(&tools(&sessions, "1"), "true").await;
    run(&tools(&sessions, "3"), "true").await;
    assert_eq!(sessions.state(&key("2")), SessionState::Closed, "it was idle longest");
    assert_eq!(sessions.state(&key("1")), SessionState::Ready);
    assert_eq!(run(&tools(&sessions, "2"), "cat file").await.stdout, "two\n");
}

async fn a_session_in_use_is_not_parked(fixture: &Fixture) {
    let sessions = fixture.sessions(1);
    let first = tools(&sessions, "1");
    let mut values = Box::pin(first.bash(command("echo begun; exec sleep 100"), CancellationToken::new()));
    while values.next().await.unwrap().unwrap().stdout.is_empty() {}
    let refused = sessions.lease(&key("2")).await.unwrap_err();
    assert!(matches!(refused, Error::AllInUse { limit: 1 }), "{refused:?}");
    assert!(refused.to_string().contains("max_concurrent_sandboxes"));
    assert_eq!(run(&first, "echo still here").await.stdout, "still here\n");
    drop(values);
    until("another session can start", || async { sessions.lease(&key("2")).await.is_ok() }).await;
}

async fn a_lost_sandbox_is_recreated(fixture: &Fixture) {
    let sessions = fixture.sessions(2);
    let tools = tools(&sessions, "1");
    let lost = sessions.lease(&key("1")).await.unwrap().sandbox().clone();
    fixture.provider.delete(&lost).await.unwrap();
    assert_eq!(run(&tools, "echo back").await.stdout, "back\n");
    let now = sessions.lease(&key("1")).await.unwrap().sandbox().clone();
    assert_ne!(now, lost);
    fixture.provider.delete(&now).await.unwrap();
    let input = bash_tools::tools::WriteFileInput { path: "a".into(), content: "b".into() };
    assert!(tools.write_file(input).await.unwrap().success);
}

async fn a_session_can_be_opened_in_advance(fixture: &Fixture) {
    let sessions = fixture.sessions(1);
    sessions.prewarm(&key("1"));
    assert_ne!(sessions.state(&key("1")), SessionState::Closed);
    until("it is open", || async { sessions.state(&key("1")) == SessionState::Ready }).await;
    sessions.prewarm(&key("2"));
    assert_eq!(
        sessions.state(&key("2")),
        SessionState::Closed,
        "it was not requested, so no session is parked for it"
    );
    assert_eq!(sessions.state(&key("1")), SessionState::Ready);
}

async fn a_deleted_chat_leaves_nothing(fixture: &Fixture) {
    let sessions = fixture.sessions(2);
    run(&tools(&sessions, "1"), "echo mine >file").await;
    sessions.delete(&key("1")).await.unwrap();
    assert_eq!(fixture.provider.find(&key("1")).await.unwrap(), None);
    sessions.delete(&key("1")).await.unwrap();
    assert_eq!(run(&tools(&sessions, "1"), "ls").await.stdout, "");

    let opening = tokio::spawn({
        let sessions = sessions.clone();
        async move { sessions.lease(&key("2")).await.map(drop) }
    });
    until("it is being opened", || async { sessions.state(&key("2")) != SessionState::Closed }).await;
    sessions.delete(&key("2")).await.unwrap();
    let _ = opening.await.unwrap();
    until("a session deleted while it opened is gone", || async {
        fixture.provider.find(&key("2")).await.unwrap().is_none()
    })
    .await;
}

async fn an_idle_session_is_released(fixture: &Fixture) {
    let limits = SessionLimits { max_open: 2, idle_ttl: Duration::from_millis(300) };
    let sessions = Sessions::new(Arc::clone(&fixture.provider), None, limits);
    let tools = tools(&sessions, "1");
    run(&tools, "echo kept >file; sleep 1").await;
    until("the session is released", || async { sessions.state(&key("1")) == SessionState::Closed }).await;
    assert_eq!(run(&tools, "cat file").await.stdout, "kept\n");
}

async fn a_caller_that_disconnects_does_not_affect_others(fixture: &Fixture) {
    let sessions = fixture.sessions(1);
    let key = key("1");
    {
        let leaving = sessions.lease(&key);
        tokio::pin!(leaving);
        assert!(futures::poll!(&mut leaving).is_pending());
    }
    let stays = sessions.lease(&key).await.unwrap();
    drop(stays);
    let other = sessions.lease(&crate::fixture::key("2")).await;
    assert!(other.is_ok(), "the disconnected caller uses nothing: {other:?}");
}

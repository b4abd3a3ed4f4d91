//! A chat has one sandbox as long as it is used, and its files longer.

use std::time::Duration;

use bash_tools::session::{Error, SessionLimits, SessionState, Sessions};
use bash_tools::tools::Toolkit;
use futures::StreamExt;
use futures::future::join_all;
use std::sync::Arc;
use test_daemon::until;
use tokio_util::sync::CancellationToken;

use crate::place::{Place, command, key, limits, over_each_provider, run};

over_each_provider!(
    all_who_ask_at_once_have_the_same_sandbox,
    chats_do_not_see_each_other,
    the_one_that_is_idle_longest_makes_room_and_keeps_its_files,
    what_is_in_use_makes_no_room,
    a_lost_sandbox_is_made_anew,
    what_is_opened_beforehand_is_waiting,
    a_deleted_chat_leaves_nothing,
    an_idle_session_is_given_back,
    one_who_leaves_takes_nothing_from_the_others,
);

fn tools(sessions: &Sessions, chat: &str) -> Toolkit {
    Toolkit::new(sessions.clone(), key(chat), limits())
}

async fn all_who_ask_at_once_have_the_same_sandbox(place: &Place) {
    let sessions = place.sessions(2);
    let key = key("1");
    let leases = join_all((0..20).map(|_| sessions.lease(&key))).await;
    let first = leases[0].as_ref().unwrap().sandbox().clone();
    assert!(leases.iter().all(|lease| *lease.as_ref().unwrap().sandbox() == first));
    let again = place.sessions(2).lease(&key).await.unwrap().sandbox().clone();
    assert_eq!(again, first, "after a restart of the app");
}

async fn chats_do_not_see_each_other(place: &Place) {
    let sessions = place.sessions(2);
    run(&tools(&sessions, "1"), "echo mine >secret").await;
    assert_eq!(run(&tools(&sessions, "2"), "cat secret 2>/dev/null; ls | wc -l").await.stdout.trim(), "0");
}

async fn the_one_that_is_idle_longest_makes_room_and_keeps_its_files(place: &Place) {
    let sessions = place.sessions(2);
    run(&tools(&sessions, "1"), "echo one >file").await;
    run(&tools(&sessions, "2"), "echo two >file").await;
    run(&tools(&sessions, "1"), "true").await;
    run(&tools(&sessions, "3"), "true").await;
    assert_eq!(sessions.state(&key("2")), SessionState::Closed, "it was idle longest");
    assert_eq!(sessions.state(&key("1")), SessionState::Ready);
    assert_eq!(run(&tools(&sessions, "2"), "cat file").await.stdout, "two\n");
}

async fn what_is_in_use_makes_no_room(place: &Place) {
    let sessions = place.sessions(1);
    let first = tools(&sessions, "1");
    let mut values = Box::pin(first.bash(command("echo begun; exec sleep 100"), CancellationToken::new()));
    while values.next().await.unwrap().unwrap().stdout.is_empty() {}
    let refused = sessions.lease(&key("2")).await.unwrap_err();
    assert!(matches!(refused, Error::AllInUse { limit: 1 }), "{refused:?}");
    assert!(refused.to_string().contains("max_concurrent_sandboxes"));
    assert_eq!(run(&first, "echo still here").await.stdout, "still here\n");
    drop(values);
    until("there is room", || async { sessions.lease(&key("2")).await.is_ok() }).await;
}

async fn a_lost_sandbox_is_made_anew(place: &Place) {
    let sessions = place.sessions(2);
    let tools = tools(&sessions, "1");
    let lost = sessions.lease(&key("1")).await.unwrap().sandbox().clone();
    place.provider.delete(&lost).await.unwrap();
    assert_eq!(run(&tools, "echo back").await.stdout, "back\n");
    let now = sessions.lease(&key("1")).await.unwrap().sandbox().clone();
    assert_ne!(now, lost);
    place.provider.delete(&now).await.unwrap();
    let input = bash_tools::tools::WriteFileInput { path: "a".into(), content: "b".into() };
    assert!(tools.write_file(input).await.unwrap().success);
}

async fn what_is_opened_beforehand_is_waiting(place: &Place) {
    let sessions = place.sessions(1);
    sessions.prewarm(&key("1"));
    assert_ne!(sessions.state(&key("1")), SessionState::Closed);
    until("it is open", || async { sessions.state(&key("1")) == SessionState::Ready }).await;
    sessions.prewarm(&key("2"));
    assert_eq!(
        sessions.state(&key("2")),
        SessionState::Closed,
        "nobody has asked for it, so nobody makes room"
    );
    assert_eq!(sessions.state(&key("1")), SessionState::Ready);
}

async fn a_deleted_chat_leaves_nothing(place: &Place) {
    let sessions = place.sessions(2);
    run(&tools(&sessions, "1"), "echo mine >file").await;
    sessions.delete(&key("1")).await.unwrap();
    assert_eq!(place.provider.find(&key("1")).await.unwrap(), None);
    sessions.delete(&key("1")).await.unwrap();
    assert_eq!(run(&tools(&sessions, "1"), "ls").await.stdout, "");

    let opening = tokio::spawn({
        let sessions = sessions.clone();
        async move { sessions.lease(&key("2")).await.map(drop) }
    });
    until("it is being opened", || async { sessions.state(&key("2")) != SessionState::Closed }).await;
    sessions.delete(&key("2")).await.unwrap();
    let _ = opening.await.unwrap();
    until("what was deleted while it was opened is gone", || async {
        place.provider.find(&key("2")).await.unwrap().is_none()
    })
    .await;
}

async fn an_idle_session_is_given_back(place: &Place) {
    let limits = SessionLimits { max_open: 2, idle_ttl: Duration::from_millis(300) };
    let sessions = Sessions::new(Arc::clone(&place.provider), None, limits);
    let tools = tools(&sessions, "1");
    run(&tools, "echo kept >file; sleep 1").await;
    until("it is given back", || async { sessions.state(&key("1")) == SessionState::Closed }).await;
    assert_eq!(run(&tools, "cat file").await.stdout, "kept\n");
}

async fn one_who_leaves_takes_nothing_from_the_others(place: &Place) {
    let sessions = place.sessions(1);
    let key = key("1");
    {
        let leaving = sessions.lease(&key);
        tokio::pin!(leaving);
        assert!(futures::poll!(&mut leaving).is_pending());
    }
    let stays = sessions.lease(&key).await.unwrap();
    drop(stays);
    let other = sessions.lease(&crate::place::key("2")).await;
    assert!(other.is_ok(), "nothing of who left is in use: {other:?}");
}

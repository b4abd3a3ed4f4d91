//! A chat's sandbox, as its user sees it.

use bash_tools::Workspace;
use bash_tools::provider::{self, Content, FileKind, SandboxState};
use bash_tools::session::{SessionState, Sessions};
use bash_tools::tools::{Answer, Call, Error, Toolkit};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::json;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::fixture::{Fixture, command, key, limits, over_each_provider, run};

over_each_provider!(
    a_directory_is_listed_page_by_page,
    files_are_uploaded_and_downloaded,
    removed_files_are_gone,
    reading_creates_no_sandbox,
    a_user_can_park_the_sandbox,
    a_chat_deleted_while_it_opens_leaves_nothing_for_the_next,
    a_models_arguments_become_a_call,
    every_caller_that_opens_gets_the_progress,
);

fn both(sessions: &Sessions, chat: &str) -> (Workspace, Toolkit) {
    let tools = Toolkit::new(sessions.clone(), key(chat), limits());
    (Workspace::new(tools.clone()), tools)
}

fn content(text: &'static str) -> Content {
    futures::stream::iter([Ok(Bytes::from_static(text.as_bytes()))]).boxed()
}

async fn read(workspace: &Workspace, path: &str) -> Result<String, Error> {
    let mut download = workspace.download(path).await?;
    let mut whole = Vec::new();
    while let Some(piece) = download.content.next().await {
        whole.extend(piece?);
    }
    Ok(String::from_utf8(whole).unwrap())
}

async fn a_directory_is_listed_page_by_page(fixture: &Fixture) {
    let (workspace, tools) = both(&fixture.sessions(1), "1");
    run(&tools, "mkdir -p 'd/a b' && cd d && echo four >.hidden && ln -s /etc link && mkfifo pipe && mkdir many && touch many/{0001..1203}").await;
    let page = workspace.list("d", None).await.unwrap().unwrap();
    let reported: Vec<_> =
        page.entries.iter().map(|entry| (entry.name.as_str(), entry.kind, entry.bytes)).collect();
    let expected = [
        (".hidden", FileKind::File, Some(5)),
        ("a b", FileKind::Directory, None),
        ("link", FileKind::Link, None),
        ("many", FileKind::Directory, None),
        ("pipe", FileKind::Other, None),
    ];
    assert_eq!(reported, expected);
    assert!(page.next_cursor.is_none() && page.entries[0].modified_at.is_some());
    assert_eq!(workspace.list("d/a b", None).await.unwrap().unwrap().entries, []);

    let (mut names, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = workspace.list("d/many", cursor.as_deref()).await.unwrap().unwrap();
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        pages += 1;
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((names.len(), pages > 1), (1203, true));
    assert!(names.is_sorted());
    let error = workspace.list("none", None).await.unwrap_err();
    assert!(matches!(error, Error::Provider(provider::Error::NoFile { .. })), "{error:?}");
    assert!(workspace.list("d/.hidden", None).await.is_err(), "a file is not a directory");
}

async fn files_are_uploaded_and_downloaded(fixture: &Fixture) {
    let (workspace, tools) = both(&fixture.sessions(1), "1");
    workspace.upload("new/-dir/ä b.txt", 5, content("hello")).await.unwrap();
    assert_eq!(run(&tools, "cat 'new/-dir/ä b.txt'").await.stdout, "hello");
    assert_eq!(read(&workspace, "new/-dir/ä b.txt").await.unwrap(), "hello");
    run(&tools, "head -c 5000000 /dev/zero | tr '\\0' x >large").await;
    assert_eq!(read(&workspace, "large").await.unwrap().len(), 5_000_000);
    let error = workspace.download("none").await.unwrap_err();
    assert!(matches!(error, Error::Provider(provider::Error::NoFile { .. })), "{error:?}");
}

async fn removed_files_are_gone(fixture: &Fixture) {
    let (workspace, tools) = both(&fixture.sessions(1), "1");
    run(&tools, "mkdir -p d/e && touch d/e/f -- -f && ln -s d link").await;
    workspace.remove("link").await.unwrap();
    workspace.remove("-f").await.unwrap();
    assert_eq!(run(&tools, "ls; ls d").await.stdout, "d\ne\n");
    workspace.remove("d").await.unwrap();
    assert_eq!(run(&tools, "ls -A | grep -v remcochat").await.stdout, "");
    let error = workspace.remove("d").await.unwrap_err();
    assert!(matches!(error, Error::Provider(provider::Error::NoFile { .. })), "{error:?}");
}

async fn reading_creates_no_sandbox(fixture: &Fixture) {
    let (workspace, _) = both(&fixture.sessions(1), "1");
    assert_eq!(workspace.state(), SessionState::Closed);
    assert_eq!(workspace.status().await.unwrap(), None);
    assert_eq!(workspace.list("", None).await.unwrap(), None);
    assert!(workspace.download("a").await.is_err() && workspace.remove("a").await.is_err());
    workspace.park().await.unwrap();
    workspace.delete().await.unwrap();
    assert_eq!(fixture.provider.find(&key("1")).await.unwrap(), None);
}

async fn a_user_can_park_the_sandbox(fixture: &Fixture) {
    let (workspace, tools) = both(&fixture.sessions(1), "1");
    run(&tools, "echo kept >file").await;
    let mut values = Box::pin(tools.bash(command("exec sleep 100"), CancellationToken::new()));
    values.next().await.unwrap().unwrap();
    let status = workspace.status().await.unwrap().unwrap();
    assert_eq!(status.state, SandboxState::Running);
    assert!(status.limits.vcpus.is_some());
    let error = workspace.park().await.unwrap_err();
    assert!(matches!(error, Error::Provider(provider::Error::Busy { .. })), "{error:?}");
    drop(values);
    test_daemon::until("nothing runs in it", || async { workspace.park().await.is_ok() }).await;
    assert_eq!(workspace.status().await.unwrap().unwrap().state, SandboxState::Parked);
    assert_eq!(workspace.state(), SessionState::Closed);
    assert_eq!(read(&workspace, "file").await.unwrap(), "kept\n");
    assert_eq!(workspace.status().await.unwrap().unwrap().state, SandboxState::Running);
}

async fn a_chat_deleted_while_it_opens_leaves_nothing_for_the_next(fixture: &Fixture) {
    let sessions = fixture.sessions(1);
    let (workspace, tools) = both(&sessions, "1");
    run(&tools, "echo old >file").await;
    let before = sessions.lease(&key("1")).await.unwrap().sandbox().clone();
    let fresh = fixture.sessions(1);
    fresh.prewarm(&key("1"));
    let chat = key("1");
    let (gone, next) = tokio::join!(fresh.delete(&chat), async {
        tokio::task::yield_now().await;
        fresh.lease(&chat).await.map(|lease| lease.sandbox().clone())
    });
    gone.unwrap();
    assert_ne!(next.unwrap(), before, "the next chat has a new sandbox");
    let (_, tools) = both(&fresh, "1");
    assert_eq!(run(&tools, "ls").await.stdout, "");
    workspace.delete().await.unwrap();
}

async fn a_models_arguments_become_a_call(fixture: &Fixture) {
    let (_, tools) = both(&fixture.sessions(1), "1");
    let call = |name: &str, input| {
        let call = Call::of(name, input).unwrap();
        let tools = tools.clone();
        async move { tools.call(call, CancellationToken::new()).map(Result::unwrap).collect::<Vec<_>>().await }
    };
    call("writeFile", json!({ "path": "a", "content": "b" })).await;
    let read = call("readFile", json!({ "path": "a" })).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), json!([{ "content": "b" }]));
    let ran = call("bash", json!({ "command": "cat a; exit 3" })).await;
    assert!(ran[0].is_preliminary());
    let Some(Answer::Bash(last)) = ran.last() else { panic!("{ran:?}") };
    assert_eq!((last.stdout.as_str(), last.exit_code), ("b", 3));
    let url = call("sandboxUrl", json!({ "port": 3000 })).await;
    assert!(matches!(&url[..], [Answer::Url(url)] if url.url.starts_with("http")));
}

async fn every_caller_that_opens_gets_the_progress(fixture: &Fixture) {
    let (_, tools) = both(&fixture.sessions(1), "1");
    let received = Mutex::new(Vec::new());
    let lease = tools.open(|state| received.lock().unwrap().push(state.clone())).await.unwrap();
    assert_eq!(received.lock().unwrap().first(), Some(&SessionState::Opening));
    drop(lease);
    received.lock().unwrap().clear();
    tools.open(|state| received.lock().unwrap().push(state.clone())).await.unwrap();
    assert!(received.lock().unwrap().is_empty(), "it is open");
}

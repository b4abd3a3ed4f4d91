//! Machines stop, are woken, and are recreated.

use std::time::Duration;

use bash_tools::provider::{Command, Error, GitSource, Provider, SandboxId, VercelOptions};

use super::Story;
use crate::fixture::key;
use crate::vercel_fake::{Fault, request};

#[tokio::test]
async fn a_restarted_app_finds_its_sandbox() {
    let story = Story::begin().await;
    story.output("echo kept >file").await;
    let again = story.fake.provider().open(&key("1")).await.unwrap();
    assert_eq!((again.sandbox, again.is_new), (story.sandbox.clone(), false));
    let other = story.vercel.open(&key("Ä/2")).await.unwrap();
    assert!(other.is_new && other.sandbox != story.sandbox);
}

#[tokio::test]
async fn a_stopped_machine_is_woken_by_every_operation() {
    let story = Story::begin().await;
    story.output("echo kept >file").await;
    story.fake.stop_all();
    assert_eq!(story.output("cat file").await, "kept\n");
    story.fake.stop_all();
    let read = story.vercel.read_file(&story.sandbox, "file", 0, 100).await.unwrap();
    assert_eq!(read.bytes, "kept\n");
    story.fake.stop_all();
    story.vercel.write_file(&story.sandbox, "file", "new".into()).await.unwrap();
    story.fake.stop_all();
    story.vercel.url(&story.sandbox, 3000).await.unwrap();
    assert_eq!(story.output("cat file").await, "new");
    // From now on the stop is known.
    let requests_before = story.fake.count("POST", "/cmd");
    story.output("true").await;
    assert_eq!(story.fake.count("POST", "/cmd"), requests_before + 1);
}

#[tokio::test]
async fn a_release_stops_the_machine_and_keeps_its_files() {
    for (persistent, left) in [(true, "kept\n"), (false, "")] {
        let story = Story::with(VercelOptions { persistent, ..request() }).await;
        story.output("echo kept >file").await;
        story.vercel.release(&story.sandbox).await.unwrap();
        assert_eq!(story.fake.count("POST", "/stop"), 1);
        story.vercel.release(&story.sandbox).await.unwrap();
        assert_eq!(story.fake.count("POST", "/stop"), 1, "one stop request is enough");
        assert_eq!(story.output("cat file 2>/dev/null || true").await, left);
    }
}

#[tokio::test]
async fn an_operation_waits_for_a_stopping_machine() {
    let story = Story::begin().await;
    story.fake.inject_fault("POST", "/cmd", Fault::Refuse(422, "sandbox_stopping"));
    story.fake.inject_fault("GET", "/bash-tools-chat-1", Fault::Refuse(422, "sandbox_snapshotting"));
    assert_eq!(story.output("echo done").await, "done\n");
    for _ in 0..2 {
        story.fake.inject_fault("POST", "/cmd", Fault::Refuse(410, "sandbox_stopped"));
    }
    let unavailable = story.start("echo done", 20).await.unwrap_err();
    assert!(matches!(unavailable, Error::Unavailable { .. }), "{unavailable:?}");
}

#[tokio::test]
async fn a_sandbox_recreated_by_others_under_the_name_is_a_new_one() {
    let story = Story::begin().await;
    story.fake.provider().delete(&story.sandbox).await.unwrap();
    let other = story.vercel.open(&key("1")).await.unwrap();
    assert!(other.is_new && other.sandbox != story.sandbox);
    story.vercel.write_file(&other.sandbox, "mine", "x".into()).await.unwrap();
    let gone = story.start("ls", 20).await.unwrap_err();
    assert!(matches!(gone, Error::Gone), "{gone:?}");
    story.vercel.delete(&story.sandbox).await.unwrap();
    assert_eq!(story.vercel.find(&key("1")).await.unwrap(), Some(other.sandbox.clone()));
    let foreign = SandboxId::from("sbx_of_sandboxd".to_owned());
    assert!(matches!(story.vercel.url(&foreign, 3000).await, Err(Error::Gone)));
}

#[tokio::test]
async fn lost_files_count_as_a_new_sandbox() {
    let story = Story::begin().await;
    story.fake.inject_fault("GET", "/bash-tools-chat-1", Fault::Refuse(410, "snapshot_not_found"));
    let opened = story.vercel.open(&key("1")).await.unwrap();
    assert!(opened.is_new && opened.sandbox != story.sandbox);
    story.fake.stop_all();
    story.fake.inject_fault("GET", "/bash-tools-chat-1", Fault::Refuse(410, "snapshot_not_found"));
    let running = story.vercel.run(&opened.sandbox, Command::new("true", Duration::from_secs(1)));
    assert!(matches!(running.await, Err(Error::Gone)));
}

#[tokio::test]
async fn concurrent_opens_share_one_sandbox() {
    let story = Story::begin().await;
    let others = [story.fake.provider(), story.fake.provider(), story.fake.provider()];
    let key = key("2");
    let opened = futures::future::join_all(others.iter().map(|vercel| vercel.open(&key))).await;
    let opened: Vec<_> = opened.into_iter().map(Result::unwrap).collect();
    assert!(opened.iter().all(|it| it.sandbox == opened[0].sandbox));
    assert_eq!(opened.iter().filter(|it| it.is_new).count(), 1);
    // The same if one request does not see the sandbox of the other.
    story.fake.inject_fault("GET", "/bash-tools-chat-2", Fault::Refuse(404, "not_found"));
    assert_eq!(story.vercel.open(&key).await.unwrap().sandbox, opened[0].sandbox);
}

#[tokio::test]
async fn a_repository_is_in_the_workspace() {
    let origin = tempfile::tempdir().unwrap();
    let script = "git init -q -b main && mkdir -p workspace src && echo w >workspace/w && echo s >src/s && \
        echo h >.hidden && git add -A && git -c user.name=n -c user.email=e commit -qm first";
    let made = std::process::Command::new("bash").args(["-ec", script]).current_dir(origin.path()).status();
    assert!(made.unwrap().success());
    let url = format!("file://{}", origin.path().display());
    let source = GitSource { url, revision: Some("main".into()), depth: Some(1) };
    let story = Story::with(VercelOptions { source: Some(source), ..request() }).await;
    let listed =
        "git status --porcelain; git log --format=%s; find . -name .git -prune -o -type f -print | sort";
    assert_eq!(story.output(listed).await, "first\n./.hidden\n./src/s\n./workspace/w\n");
    story.output("echo mine >src/s").await;
    story.fake.stop_all();
    assert_eq!(story.output("cat src/s").await, "mine\n");
}

#[tokio::test]
async fn a_port_has_a_url_only_if_the_sandbox_was_created_with_it() {
    let story = Story::begin().await;
    let url = story.vercel.url(&story.sandbox, 3000).await.unwrap();
    assert_eq!(url, "https://bash-tools-chat-1-3000.vercel.run");
    let refused = story.vercel.url(&story.sandbox, 4000).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { message } if message.contains("4000")), "{refused:?}");
}

//! Edits: exactly the requested change, or none.

use sandbox_api::ErrorCode;
use sandbox_api::files::{EditFile, TextEdit};
use sandbox_client::Error;

use crate::support::harness::{Daemon, over_each_transport};

over_each_transport!(an_edit_can_be_reverted_with_its_diff);

fn edits(path: &str, edits: &[(&str, &str)]) -> EditFile {
    let edits = edits.iter().map(|(old, new)| TextEdit {
        old_text: (*old).into(),
        new_text: (*new).into(),
        replace_all: None,
    });
    EditFile { path: path.into(), edits: edits.collect(), ..EditFile::default() }
}

async fn an_edit_can_be_reverted_with_its_diff(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir 'a dir'; seq 100 > 'a dir/file'; printf 'no end' >> 'a dir/file'; chmod 755 'a dir/file'; cp -p 'a dir/file' before").await;
    let request =
        edits("a dir/file", &[("\n50\n", "\nfifty\nand more\n"), ("no end", "an end\n"), ("1\n2\n3\n", "")]);
    let edited = daemon.client.edit_file(&sandbox, &request).await.unwrap();
    assert_eq!(edited.first_changed_line, Some(1));
    assert!(edited.diff.contains("-50\n+fifty\n+and more\n"), "{}", edited.diff);
    assert_eq!(daemon.client.stat_file(&sandbox, "a dir/file").await.unwrap().etag.unwrap(), edited.etag);
    daemon
        .client
        .put_file(&sandbox, "the.diff", edited.diff, sandbox_client::WriteOptions::default())
        .await
        .unwrap();
    let inside = "head -2 'a dir/file'; tail -1 'a dir/file'; stat -c %a 'a dir/file'; patch -R -p1 -s < the.diff && cmp 'a dir/file' before && echo back";
    assert_eq!(daemon.output(&sandbox, inside).await, "4\n5\nan end\n755\nback\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_of_the_original_do_not_see_each_other() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "printf 'one\\ntwo\\n' > file").await;
    let swap = |pairs: &[(&str, &str)]| EditFile { all_on_original: Some(true), ..edits("file", pairs) };
    daemon.client.edit_file(&sandbox, &swap(&[("two", "one"), ("one", "two")])).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat file").await, "two\none\n");
    let overlap = daemon.client.edit_file(&sandbox, &swap(&[("wo\no", "x"), ("two", "y")])).await;
    let Err(Error::Refused { body, .. }) = overlap else { panic!("{overlap:?}") };
    assert_eq!((body.code, &body.details["field"]), (ErrorCode::InvalidRequest, &"edits[1].oldText".into()));
    assert_eq!(daemon.output(&sandbox, "cat file").await, "two\none\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ambiguous_edit_changes_nothing() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "printf 'a\\nb\\na\\n' > file").await;
    let refused = |request: EditFile| {
        let (client, sandbox) = (&daemon.client, &sandbox);
        async move {
            match client.edit_file(sandbox, &request).await {
                Err(Error::Refused { body, .. }) => (body.code, body.details),
                other => panic!("{other:?}"),
            }
        }
    };
    let (code, details) = refused(edits("file", &[("b", "x"), ("a", "y")])).await;
    assert_eq!(code, ErrorCode::WrongState);
    assert_eq!((&details["field"], &details["occurrences"]), (&"edits[1].oldText".into(), &2.into()));
    assert_eq!(refused(edits("file", &[("absent", "x")])).await.1["occurrences"], 0);
    assert_eq!(refused(edits("file", &[("", "x")])).await.1["field"], "edits[0].oldText");
    assert_eq!(refused(edits("file", &[])).await.1["field"], "edits");
    assert_eq!(refused(edits("absent", &[("a", "x")])).await.0, ErrorCode::NotFound);
    assert_eq!(daemon.output(&sandbox, "cat file").await, "a\nb\na\n");
    let mut all = edits("file", &[("a", "x")]);
    all.edits[0].replace_all = Some(true);
    daemon.client.edit_file(&sandbox, &all).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat file; truncate -s 17M large").await, "x\nb\nx\n");
    assert_eq!(refused(edits("large", &[("a", "x")])).await.0, ErrorCode::TooLarge);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_file_changed_meanwhile_is_rejected() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo 0 > counter").await;
    // Each adds one. Those that lose to another try again, so no increment is lost.
    let tasks = (0..4).map(|_| {
        let (client, sandbox) = (daemon.client.clone(), sandbox.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                loop {
                    let now = client.read_file(&sandbox, "counter").await.unwrap().unwrap();
                    let now: u32 = String::from_utf8(now).unwrap().trim().parse().unwrap();
                    let request = edits("counter", &[(&format!("{now}\n"), &format!("{}\n", now + 1))]);
                    match client.edit_file(&sandbox, &request).await {
                        Ok(edited) if edited.diff.contains(&format!("-{now}\n")) => break,
                        Ok(edited) => panic!("{edited:?}"),
                        Err(error) => {
                            let code = error.code();
                            assert!(
                                matches!(code, Some(ErrorCode::WrongState | ErrorCode::PreconditionFailed)),
                                "{error}"
                            );
                        }
                    }
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(daemon.output(&sandbox, "cat counter").await, "40\n");
    daemon.stop().await;
}

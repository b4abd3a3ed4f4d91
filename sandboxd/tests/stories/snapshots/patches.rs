//! What differs between two snapshots, as a patch.

use sandbox_api::snapshot::{DiffOmitted, RestoreSnapshot};
use sandbox_client::WriteOptions;

use super::snapshot;
use crate::support::harness::{Daemon, SOON};

const FILL: &str = r#"
set -e
mkdir src 'a dir'
printf 'one\ntwo\nthree\n' > src/text; printf 'old' > 'a dir/b c'; printf 'old\n' > "$(printf 'not\377utf8')"
echo script > script; ln -s src/text link; echo moved > moved; echo gone > gone
printf 'a\0b' > binary; seq 200000 > large; echo linked > linked; mkfifo pipe; echo mode > mode
for i in 1 2 3 4 5 6; do seq -f "$i %.0f" 60000 > many$i; done
echo tool > /vercel/sandbox/.local/tool
"#;

const CHANGE: &str = r#"
set -e
printf 'one\n2\nthree\n' > src/text; printf 'new\n' > 'a dir/b c'; printf 'new\n' > "$(printf 'not\377utf8')"
chmod 755 script; ln -sfn elsewhere link; mv moved 'a dir/moved'; rm gone; echo added > src/added; : > empty
printf 'a\0c' > binary; echo 1 >> large; ln linked also-linked; rm pipe; chmod 600 mode
for i in 1 2 3 4 5 6; do sed -i 's/^\(. 30000\)$/\1 changed/' many$i; done
echo newer > /vercel/sandbox/.local/tool
"#;

/// Everything that a patch can express.
const LIST: &str = "find . -name binary -o -name large -o -name '*linked' -o -type p -o -type l -printf '%p %l\\n' \
    -o -type f -printf '%p ' -perm -100 -printf x -exec sha256sum {} + | LC_ALL=C sort | tr -c '\\n -~' '?'";

/// Standard output and standard error of the program.
async fn diff(daemon: &Daemon, args: &[&str]) -> (Vec<u8>, String) {
    let args = [&["diff", "--url", &daemon.base], args].concat();
    let output = tokio::time::timeout(SOON, daemon.home.program(&args).output()).await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    (output.stdout, errors)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_of_two_snapshots_applies_to_the_first() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, FILL).await;
    let one = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.output(&sandbox, CHANGE).await;
    let changed = daemon.output(&sandbox, LIST).await;
    let two = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;

    let (patch, errors) = diff(&daemon, &[one.as_str(), two.as_str(), "--patch"]).await;
    for (path, why) in [
        ("workspace/binary", "it is not text"),
        ("workspace/large", "it is too large"),
        ("workspace/linked", "a hard link"),
        ("workspace/pipe", "a named pipe"),
        ("workspace/mode", "only metadata"),
        ("1 changes", "outside the workspace"),
    ] {
        assert!(errors.lines().any(|line| line.contains(path) && line.contains(why)), "{path}: {errors}");
    }
    assert_eq!(errors.lines().count(), 6, "one of the two links is the file: {errors}");

    let restore = RestoreSnapshot { snapshot_id: one.clone(), force: None };
    daemon.client.restore_snapshot(&sandbox, &restore).await.unwrap();
    daemon.client.put_file(&sandbox, "the.patch", patch, WriteOptions::default()).await.unwrap();
    daemon.output(&sandbox, "git apply the.patch && rm the.patch").await;
    assert_eq!(daemon.output(&sandbox, LIST).await, changed);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_with_patches_ends_early_and_the_next_one_continues() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, FILL).await;
    let one = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.output(&sandbox, CHANGE).await;
    let two = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let listed = daemon.client.compare_snapshots(Some(&one), &two, None).await.unwrap();
    assert_eq!(listed.next_cursor, None);
    assert!(listed.changes.iter().all(|change| change.diff.is_none() && change.diff_omitted.is_none()));

    let (mut pages, mut changes, mut cursor) = (0, Vec::new(), None);
    loop {
        let page = daemon.client.diff_snapshots(Some(&one), &two, cursor.as_deref()).await.unwrap();
        pages += 1;
        changes.extend(page.changes);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert!(pages > 1, "the texts have more than 2 MiB");
    let text = changes.iter().find(|change| change.path == "workspace/src/text").unwrap();
    let expected = "diff --git a/src/text b/src/text\n--- a/src/text\n+++ b/src/text\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
    assert_eq!(text.diff.as_deref(), Some(expected));
    let large = changes.iter().find(|change| change.path == "workspace/large").unwrap();
    assert_eq!((&large.diff, large.diff_omitted), (&None, Some(DiffOmitted::TooLarge)));
    let added = daemon.client.diff_snapshots(None, &two, None).await.unwrap().changes;
    assert!(
        added.iter().any(|change| change.diff.as_deref().is_some_and(|diff| diff.contains("new file mode")))
    );
    daemon.stop().await;
}

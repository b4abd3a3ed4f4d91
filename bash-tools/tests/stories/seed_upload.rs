//! Workspaces seeded from a directory of the app's machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bash_tools::provider::{Content, Error as ProviderError};
use bash_tools::seed::{Error, Seed, UploadSeed};
use bash_tools::session::{self, SessionState};
use bash_tools::tools::Toolkit;
use futures::future::join_all;
use tempfile::TempDir;
use test_daemon::{Home, until};

use crate::fixture::{key, limits, run};
use crate::seed::SeedFixture;

fn upload(root: &Path) -> UploadSeed {
    UploadSeed {
        root: root.to_owned(),
        include: "**/*".into(),
        max_files: UploadSeed::MAX_FILES,
        max_bytes: UploadSeed::MAX_BYTES,
    }
}

fn write(root: &TempDir, path: &str, content: impl AsRef<[u8]>) {
    let path = root.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_uploaded_unchanged_without_secrets() {
    let root = tempfile::tempdir().unwrap();
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(120));
    let noise: Vec<u8> =
        (0..3_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for path in ["tool", "a b/é 🦀", "-rf", ".hidden", ".env.example", "$(touch pwned)", &long] {
        write(&root, path, path);
    }
    write(&root, "noise", &noise);
    write(&root, "empty", "");
    write(&root, ".gitignore", "*.log\n");
    for path in [
        ".env",
        "deep/.ENV.local",
        "x/ID_RSA",
        ".ssh/known",
        "node_modules/x",
        "x.log",
        ".git/config",
        ".remcochat/seeded",
    ] {
        write(&root, path, "hunter2");
    }
    fs::set_permissions(root.path().join("tool"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(root.path().join("empty"), fs::Permissions::from_mode(0o444)).unwrap();
    symlink("../tool", root.path().join("a b/link")).unwrap();
    symlink("/etc/passwd", root.path().join("out")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(root.path().join("fifo")).status().unwrap().success());

    let fixture = SeedFixture::in_home(Home::new()).await;
    let sandbox = fixture.sandbox("1").await;
    let (seeded, reported) = fixture.seed_with_steps(&sandbox, &Seed::Upload(upload(root.path()))).await;
    seeded.unwrap();
    assert_eq!(reported[1], "uploading 11 files with 3000298 bytes", "{reported:?}");
    let found = fixture
        .output(&sandbox, "find . -mindepth 1 -not -path './.remcochat*' -not -type d | LC_ALL=C sort")
        .await;
    let long_there = format!("./{long}");
    let mut wanted = vec![
        "./$(touch pwned)",
        "./-rf",
        "./.env.example",
        "./.gitignore",
        "./.hidden",
        "./a b/link",
        "./a b/é 🦀",
        &long_there,
        "./empty",
        "./noise",
        "./tool",
    ];
    wanted.sort_unstable();
    assert_eq!(found.lines().collect::<Vec<_>>(), wanted);
    let look = "stat -c %a tool empty; readlink 'a b/link'; cat 'a b/link'; echo; sha256sum <noise | cut -d' ' -f1; stat -c %Y tool";
    use sha2::Digest;
    use std::os::unix::fs::MetadataExt;
    let digest: String = sha2::Sha256::digest(&noise).iter().map(|byte| format!("{byte:02x}")).collect();
    let time = fs::metadata(root.path().join("tool")).unwrap().mtime();
    let wanted = format!("750\n444\n../tool\ntool\n{digest}\n{time}\n");
    assert_eq!(fixture.output(&sandbox, look).await, wanted);
    assert_eq!(fixture.output(&sandbox, "grep -rl hunter2 . ; ls -A .remcochat").await, "lock\nseeded\n");
    let mark = fixture.output(&sandbox, "cat .remcochat/seeded").await;
    assert!(mark.starts_with("upload ") && !mark.contains("tmp"), "it names a path of this machine: {mark}");

    // The model's changes stay, even if the directory has changed meanwhile.
    fixture.output(&sandbox, "rm -f noise; echo mine >tool").await;
    write(&root, "new", "new");
    fixture.seed_workspace(&sandbox, &Seed::Upload(upload(root.path()))).await.unwrap();
    assert_eq!(fixture.output(&sandbox, "cat tool; ls noise new 2>/dev/null").await, "mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_checked_before_anything_is_sent() {
    let root = tempfile::tempdir().unwrap();
    (0..2001).for_each(|number| write(&root, &format!("{}/{number}.txt", number % 10), "x"));
    write(&root, "a.ts", "1234");
    write(&root, "b.json", "1");
    let fixture = SeedFixture::in_home(Home::new()).await;
    let sandbox = fixture.sandbox("1").await;
    let error = fixture.seed_workspace(&sandbox, &Seed::Upload(upload(root.path()))).await.unwrap_err();
    let reported = error.to_string();
    assert!(
        reported.contains("2003 files") && reported.contains("2000") && reported.contains("upload_include"),
        "{reported}"
    );
    let narrow = |include: &str, max_bytes| {
        Seed::Upload(UploadSeed { include: include.into(), max_bytes, ..upload(root.path()) })
    };
    let error = fixture.seed_workspace(&sandbox, &narrow("*", 4)).await.unwrap_err();
    assert!(matches!(error, Error::TooManyBytes { limit: 4, found: 5 }), "{error:?}");
    let error = fixture.seed_workspace(&sandbox, &narrow("nowhere/**", 4)).await.unwrap_err();
    assert!(matches!(error, Error::NothingIncluded { candidates: 2003, .. }), "{error:?}");
    assert_eq!(fixture.output(&sandbox, "ls -A").await, "", "nothing was sent");
    fixture.seed_workspace(&sandbox, &narrow("*.{ts,json}", 5)).await.unwrap();
    assert_eq!(fixture.files(&sandbox).await, "a.ts b.json ");

    let sandbox = fixture.sandbox("2").await;
    fixture.seed_workspace(&sandbox, &narrow("{3,4}/**", 4000)).await.unwrap();
    assert_eq!(fixture.output(&sandbox, "ls; ls 3 4 | grep -c txt").await, "3\n4\n400\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_root_is_reported_and_retried_by_the_next_call() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("project");
    let fixture = SeedFixture::in_home(Home::new()).await;
    let sessions = fixture.sessions(&Seed::Upload(upload(&root)));
    let tools = Toolkit::new(sessions.clone(), key("1"), limits());
    let read =
        || tools.read_file(bash_tools::tools::ReadFileInput { path: "a".into(), ..Default::default() });
    let error = read().await.unwrap_err();
    let bash_tools::tools::Error::Session(session::Error::Seed(seed)) = &error else { panic!("{error:?}") };
    assert!(matches!(**seed, Error::NoRoot { .. }), "{seed:?}");
    assert!(error.to_string().contains("project_root"), "{error}");
    fs::write(&root, "a file").unwrap();
    let error = read().await.unwrap_err();
    assert!(error.to_string().contains("is not a directory"), "{error}");
    let SessionState::Failed { reason } = sessions.state(&key("1")) else { panic!("it has not failed") };
    assert!(reason.contains("is not a directory"), "{reason}");

    fs::remove_file(&root).unwrap();
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a"), "there\n").unwrap();
    assert!(read().await.unwrap().content.contains("there"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_growing_file_is_uploaded_with_its_counted_size() {
    let root = tempfile::tempdir().unwrap();
    write(&root, "log", "");
    write(&root, "z", "z");
    let fixture = SeedFixture::in_home(Home::new()).await;
    let sandbox = fixture.sandbox("1").await;
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let path = root.path().join("log");
    let writer = std::thread::spawn(move || {
        use std::io::Write;
        let mut log = fs::File::options().append(true).open(path).unwrap();
        // It grows for as long as the upload takes, but not forever.
        for line in 0..20_000_000 {
            if IS_OVER.load(Ordering::Relaxed) {
                return;
            }
            writeln!(log, "{line}").unwrap();
        }
    });
    until("it grows", || async { fs::metadata(root.path().join("log")).unwrap().len() > 0 }).await;
    let seeded = fixture.seed_workspace(&sandbox, &Seed::Upload(upload(root.path()))).await;
    IS_OVER.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    seeded.unwrap();
    let look = "head -n -1 log | awk '$1 != NR - 1' | wc -l; cat z; echo; stat -c %s log";
    let found = fixture.output(&sandbox, look).await;
    let arrived = found.strip_prefix("0\nz\n").unwrap_or_else(|| panic!("{found}"));
    let arrived: u64 = arrived.trim().parse().unwrap();
    assert!(arrived > 0 && arrived < fs::metadata(root.path().join("log")).unwrap().len(), "{arrived}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_upload_leaves_nothing_and_restarts() {
    let root = tempfile::tempdir().unwrap();
    write(&root, "a", "a");
    write(&root, "dir/b", "b");
    let seed = Seed::Upload(upload(root.path()));
    let fixture = SeedFixture::in_home(Home::new()).await;
    let sandbox = fixture.sandbox("1").await;
    let broken: Content = Box::pin(futures::stream::iter([
        Ok(bytes::Bytes::from_static(&[0x1f, 0x8b, 8, 0])),
        Err(std::io::Error::other("the file was gone")),
    ]));
    let error = fixture.provider.unpack(&sandbox, broken).await.unwrap_err();
    assert!(matches!(error, ProviderError::Broken(_) | ProviderError::Unreadable(_)), "{error:?}");

    // Possible leftovers of a killed app: uploaded, and partly moved into fixture.
    let half = "mkdir -p .remcochat/seed.old/dir a; echo upload >.remcochat/seeding; echo old >a/x; echo c >.remcochat/seed.old/c";
    fixture.output(&sandbox, half).await;
    fixture.seed_workspace(&sandbox, &seed).await.unwrap();
    let look = "find . -type f | LC_ALL=C sort | tr '\\n' ' '; cat a dir/b";
    assert_eq!(fixture.output(&sandbox, look).await, "./.remcochat/lock ./.remcochat/seeded ./a ./dir/b ab");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_uploads_do_not_undo_changes_of_a_model() {
    let root = tempfile::tempdir().unwrap();
    (0..200).for_each(|number| write(&root, &format!("{number}"), "x"));
    let seed = Seed::Upload(upload(root.path()));
    let fixture = SeedFixture::in_home(Home::new()).await;
    let apps: Vec<_> = (0..4).map(|_| fixture.sessions(&seed)).collect();
    // Each starts to work as soon as it may, while others may not be done.
    let chat = key("1");
    let works = apps.iter().enumerate().map(|(number, app)| {
        let tools = Toolkit::new(app.clone(), chat.clone(), limits());
        async move { run(&tools, &format!("echo app {number} >>7; ls | wc -l")).await }
    });
    for work in join_all(works).await {
        assert_eq!(work.stdout, "200\n", "{work:?}");
    }
    let tools = Toolkit::new(apps[0].clone(), chat, limits());
    assert_eq!(run(&tools, "grep -c app 7; ls -A .remcochat").await.stdout.lines().next(), Some("4"));
}

//! What is Vercel's alone: machines that stop, connections that break, an API that says no.

use std::io::Write;
use std::time::{Duration, Instant};

use bash_tools::provider::{
    Command, Credentials, End, EndReason, Error, Event, GitSource, Provider, Running, SandboxId, Vercel,
    VercelWish,
};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use test_daemon::until;

use crate::place::key;
use crate::vercel_fake::{Fake, PROJECT, TEAM, TOKEN, Trouble, wish};

/// A Vercel with one sandbox.
struct Story {
    fake: Fake,
    vercel: Vercel,
    sandbox: SandboxId,
}

/// What was heard of a command.
#[derive(Debug, Default)]
struct Heard {
    stdout: String,
    stderr: String,
    end: Option<End>,
}

impl Story {
    async fn begin() -> Self {
        Self::with(wish()).await
    }

    async fn with(wish: VercelWish) -> Self {
        let fake = Fake::start().await;
        let vercel = fake.provider_of(wish);
        let sandbox = vercel.open(&key("1")).await.unwrap().sandbox;
        Self { fake, vercel, sandbox }
    }

    async fn start(&self, script: &str, seconds: u64) -> Result<Running, Error> {
        let command = Command { script: script.into(), timeout: Duration::from_secs(seconds) };
        self.vercel.run(&self.sandbox, command).await
    }

    async fn run(&self, script: &str) -> Heard {
        hear(self.start(script, 20).await.unwrap()).await
    }

    async fn output(&self, script: &str) -> String {
        let heard = self.run(script).await;
        assert_eq!(heard.end.map(|end| end.exit_code), Some(0), "{script}: {heard:?}");
        heard.stdout
    }

    async fn nothing_runs(&self, seconds: &str) {
        until("what the command started is gone", || async {
            self.output(&format!("pgrep -fx 'sleep {seconds}' || true")).await.is_empty()
        })
        .await;
    }
}

async fn hear(mut running: Running) -> Heard {
    let mut heard = Heard::default();
    assert_eq!(running.next().await.unwrap().unwrap(), Event::Started);
    while let Some(event) = running.next().await {
        match event.unwrap() {
            Event::Stdout(bytes) => heard.stdout += std::str::from_utf8(&bytes).unwrap(),
            Event::Stderr(bytes) => heard.stderr += std::str::from_utf8(&bytes).unwrap(),
            Event::Ended(end) => heard.end = Some(end),
            other => panic!("{other:?}"),
        }
    }
    heard
}

const WELL: Option<End> = Some(End { exit_code: 0, reason: EndReason::Exited });

#[tokio::test]
async fn an_app_that_starts_anew_finds_its_sandbox() {
    let story = Story::begin().await;
    story.output("echo kept >file").await;
    let again = story.fake.provider().open(&key("1")).await.unwrap();
    assert_eq!((again.sandbox, again.is_new), (story.sandbox.clone(), false));
    let other = story.vercel.open(&key("Ä/2")).await.unwrap();
    assert!(other.is_new && other.sandbox != story.sandbox);
}

#[tokio::test]
async fn a_machine_that_has_stopped_is_woken_by_whatever_is_done() {
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
    // It is known from then on.
    let asked = story.fake.count("POST", "/cmd");
    story.output("true").await;
    assert_eq!(story.fake.count("POST", "/cmd"), asked + 1);
}

#[tokio::test]
async fn a_release_stops_the_machine_and_keeps_what_persists() {
    for (persistent, left) in [(true, "kept\n"), (false, "")] {
        let story = Story::with(VercelWish { persistent, ..wish() }).await;
        story.output("echo kept >file").await;
        story.vercel.release(&story.sandbox).await.unwrap();
        assert_eq!(story.fake.count("POST", "/stop"), 1);
        story.vercel.release(&story.sandbox).await.unwrap();
        assert_eq!(story.fake.count("POST", "/stop"), 1, "once is enough");
        assert_eq!(story.output("cat file 2>/dev/null || true").await, left);
    }
}

#[tokio::test]
async fn who_is_told_to_wait_waits_and_no_longer_than_sensible() {
    let story = Story::begin().await;
    let began = Instant::now();
    story.fake.meet("POST", "/cmd", Trouble::TooMany(1));
    assert_eq!(story.output("echo done").await, "done\n");
    assert!(began.elapsed() >= Duration::from_secs(1));
    story.fake.meet("POST", "/cmd", Trouble::TooMany(21));
    let full = story.start("echo done", 20).await.unwrap_err();
    assert!(
        matches!(full, Error::Full { retry_after: Some(after), .. } if after.as_secs() == 21),
        "{full:?}"
    );
    for _ in 0..3 {
        story.fake.meet("POST", "/cmd", Trouble::TooMany(0));
    }
    let full = story.start("echo done", 20).await.unwrap_err();
    assert!(matches!(full, Error::Full { .. }), "{full:?}");
}

#[tokio::test]
async fn a_machine_that_is_stopping_is_waited_for() {
    let story = Story::begin().await;
    story.fake.meet("POST", "/cmd", Trouble::Refuse(422, "sandbox_stopping"));
    story.fake.meet("GET", "/bash-tools-chat-1", Trouble::Refuse(422, "sandbox_snapshotting"));
    assert_eq!(story.output("echo done").await, "done\n");
    for _ in 0..2 {
        story.fake.meet("POST", "/cmd", Trouble::Refuse(410, "sandbox_stopped"));
    }
    let unavailable = story.start("echo done", 20).await.unwrap_err();
    assert!(matches!(unavailable, Error::Unavailable { .. }), "{unavailable:?}");
}

#[tokio::test]
async fn only_a_look_is_repeated() {
    let story = Story::begin().await;
    for trouble in [Trouble::Refuse(503, "unavailable"), Trouble::LoseAnswer] {
        story.fake.meet("GET", "/bash-tools-chat-1", trouble);
    }
    story.vercel.url(&story.sandbox, 3000).await.unwrap();
    let url = |_| story.vercel.url(&story.sandbox, 3000);
    for _ in 0..3 {
        story.fake.meet("GET", "/bash-tools-chat-1", Trouble::Refuse(500, "internal"));
    }
    let broken = url(()).await.unwrap_err();
    assert!(matches!(broken, Error::Unavailable { .. }), "{broken:?}");

    let commands = story.fake.count("POST", "/cmd");
    story.fake.meet("POST", "/cmd", Trouble::FailAfterwards);
    let failed = story.start("echo x >>times; sleep 1111", 30).await.unwrap_err();
    assert!(matches!(failed, Error::Unavailable { .. }), "{failed:?}");
    story.nothing_runs("1111").await;
    assert_eq!(story.output("cat times").await, "x\n");
    assert!(story.fake.count("POST", "/cmd") > commands);

    story.fake.meet("POST", "/fs/write", Trouble::LoseAnswer);
    let writes = story.fake.count("POST", "/fs/write");
    let write = story.vercel.write_file(&story.sandbox, "a", "b".into()).await;
    assert!(write.is_ok() || matches!(write, Err(Error::Broken(_))), "{write:?}");
    assert_eq!(story.fake.count("POST", "/fs/write"), writes + 1);
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_without_loss() {
    let script = "for i in $(seq 1 50); do echo $i; echo é$i >&2; sleep 0.02; done; exit 7";
    let stdout: String = (1..=50).map(|i| format!("{i}\n")).collect();
    let stderr: String = (1..=50).map(|i| format!("é{i}\n")).collect();
    for trouble in
        [Trouble::BreakAfter(9), Trouble::EndAfter(9), Trouble::BreakAfter(1), Trouble::EndAfter(2)]
    {
        let story = Story::begin().await;
        story.fake.meet("POST", "/cmd", trouble);
        // The replay breaks, too, and once it ends as if that were all.
        story.fake.meet("GET", "/logs", Trouble::BreakAfter(20));
        story.fake.meet("GET", "/logs", Trouble::EndAfter(30));
        let heard = story.run(script).await;
        assert_eq!((heard.stdout.as_str(), heard.stderr.as_str()), (&*stdout, &*stderr), "{trouble:?}");
        assert_eq!(heard.end, Some(End { exit_code: 7, reason: EndReason::Exited }), "{trouble:?}");
        assert!(story.fake.count("GET", "/logs") >= 3);
    }
}

#[tokio::test]
async fn a_command_goes_with_its_machine() {
    let story = Story::begin().await;
    story.fake.meet("POST", "/cmd", Trouble::EndAfter(2));
    let mut running = story.start("echo begun; sleep 1; echo more; sleep 1112", 30).await.unwrap();
    let mut end = None;
    while let Some(event) = running.next().await {
        match event.unwrap() {
            Event::Stdout(_) => story.fake.stop_all(),
            Event::Ended(it) => end = Some(it),
            _ => {}
        }
    }
    assert_eq!(end, Some(End { exit_code: 137, reason: EndReason::Lost }));
}

#[tokio::test]
async fn what_is_not_to_be_understood_is_given_up() {
    let story = Story::begin().await;
    story.fake.meet("POST", "/cmd", Trouble::Without("/command", "id"));
    let broken = story.start("sleep 1113", 60).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");
    story.nothing_runs("1113").await;

    story.fake.meet("POST", "/cmd", Trouble::Charset);
    assert_eq!(story.output("echo fine").await, "fine\n");

    story.fake.meet("GET", "/bash-tools-chat-1", Trouble::Without("/session", "id"));
    let broken = story.vercel.url(&story.sandbox, 3000).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");

    story.fake.meet("POST", "/fs/read", Trouble::Redirect);
    let broken = story.vercel.read_file(&story.sandbox, "x", 0, 1).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");
    assert_eq!(story.fake.count("POST", "/elsewhere"), 0, "the token goes nowhere else");

    story.fake.meet("POST", "/cmd", Trouble::EndlessLine);
    assert_eq!(story.run("echo once").await.stdout, "once\n", "its replay is sound");
    story.fake.meet("POST", "/cmd", Trouble::EndlessLine);
    for _ in 0..9 {
        story.fake.meet("GET", "/logs", Trouble::EndlessLine);
    }
    let running = story.start("echo begun; exec sleep 1114", 60).await.unwrap();
    let heard: Vec<_> = running.collect().await;
    assert!(matches!(heard.last(), Some(Err(Error::Broken(_)))), "{heard:?}");
    story.nothing_runs("1114").await;
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for_for_ever() {
    let story = Story::begin().await;
    story.fake.meet("POST", "/cmd", Trouble::Hang);
    let began = Instant::now();
    let broken = story.start("true", 300).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_command_ends_with_all_that_it_started() {
    let story = Story::begin().await;
    let script = "echo so far; setsid sleep 1115 & (trap '' TERM; sleep 1115) & sleep 1115";
    let heard = hear(story.start(script, 1).await.unwrap()).await;
    assert_eq!(heard.end, Some(End { exit_code: 124, reason: EndReason::Timeout }));
    assert_eq!(heard.stdout, "so far\n");
    story.nothing_runs("1115").await;

    let mut running = story.start(&script.replace("1115", "1116"), 60).await.unwrap();
    while !matches!(running.next().await, Some(Ok(Event::Stdout(_)))) {}
    drop(running);
    story.nothing_runs("1116").await;

    let server = story.run("sleep 1117 >/dev/null 2>&1 & echo started").await;
    assert_eq!(server.end, WELL);
    assert!(!story.output("pgrep -fx 'sleep 1117'").await.is_empty(), "a server outlives what started it");
}

#[tokio::test]
async fn who_leaves_while_a_command_starts_ends_it() {
    let story = Story::begin().await;
    {
        let starting = story.start("sleep 1118", 60);
        tokio::pin!(starting);
        assert!(futures::poll!(&mut starting).is_pending());
    }
    until("it was ended", || async { story.fake.count("POST", "/kill") == 1 }).await;
    story.nothing_runs("1118").await;
}

#[tokio::test]
async fn a_timeout_is_told_in_time_though_nothing_can_be_ended() {
    let story = Story::begin().await;
    let running = story.start("echo so far; exec sleep 1120", 1).await.unwrap();
    story.fake.meet("POST", "/kill", Trouble::Hang);
    story.fake.meet("POST", "/cmd", Trouble::Hang);
    let began = Instant::now();
    let heard = hear(running).await;
    assert_eq!(heard.end, Some(End { exit_code: 124, reason: EndReason::Timeout }));
    assert_eq!(heard.stdout, "so far\n");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    until("both were tried", || async { story.fake.count("POST", "/cmd") == 2 }).await;
    // Vercel itself ends it.
    story.nothing_runs("1120").await;
}

#[tokio::test]
async fn an_own_exit_code_is_no_timeout() {
    let story = Story::begin().await;
    for code in [124, 137] {
        let heard = story.run(&format!("exit {code}")).await;
        assert_eq!(heard.end, Some(End { exit_code: code, reason: EndReason::Exited }));
    }
}

#[tokio::test]
async fn scripts_may_be_longer_than_an_argument() {
    let story = Story::begin().await;
    let lines = "# é, a comment of a line\n".repeat(20_000);
    let script = format!("{lines}echo \"$# $0\"; cat <<'END'\n$HOME\nEND\n");
    assert_eq!(story.output(&script).await, "0 bash\n$HOME\n");
    let refused = story.start(&"x".repeat(1024 * 1024 + 1), 20).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { said } if said.contains("1048576")), "{refused:?}");
    let refused = story.start("echo \0", 20).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
}

#[tokio::test]
async fn files_are_read_in_parts_and_told_from_sandboxes() {
    let story = Story::begin().await;
    let content: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    story.vercel.write_file(&story.sandbox, "a/ä b", content.clone().into()).await.unwrap();
    let mut read = Vec::new();
    loop {
        let part = story.vercel.read_file(&story.sandbox, "a/ä b", read.len() as u64, 70_001).await.unwrap();
        assert_eq!(part.total_bytes, Some(300_000));
        if part.bytes.is_empty() {
            break;
        }
        read.extend_from_slice(&part.bytes);
    }
    assert!(read == content);
    assert_eq!(story.output("stat -c %a a/*").await, "644\n");
    for bad in ["", "a/", "..", "a\0"] {
        let refused = story.vercel.write_file(&story.sandbox, bad, Bytes::new()).await.unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{bad:?}: {refused:?}");
    }
    let missing = story.vercel.read_file(&story.sandbox, "none", 0, 1).await.unwrap_err();
    assert!(matches!(missing, Error::NoFile { .. }), "{missing:?}");
    story.vercel.delete(&story.sandbox).await.unwrap();
    let gone = story.vercel.read_file(&story.sandbox, "none", 0, 1).await.unwrap_err();
    assert!(matches!(gone, Error::Gone), "{gone:?}");
}

fn archive(names: &[&str]) -> Vec<Bytes> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for name in names {
        let mut header = tar::Header::new_gnu();
        header.set_size(name.len() as u64);
        header.set_mode(0o755);
        archive.append_data(&mut header, name, name.as_bytes()).unwrap();
    }
    let mut gzip = archive.into_inner().unwrap();
    gzip.flush().unwrap();
    gzip.finish().unwrap().chunks(7).map(Bytes::copy_from_slice).collect()
}

#[tokio::test]
async fn an_archive_is_unpacked_in_the_workspace_as_it_comes() {
    let story = Story::begin().await;
    let long = format!("{}/deep", "d".repeat(150));
    let parts = archive(&["run", "a/b c", &long]);
    let sent = futures::stream::iter(parts.clone().into_iter().map(Ok)).boxed();
    story.vercel.unpack(&story.sandbox, sent).await.unwrap();
    assert_eq!(story.output("cat run 'a/b c'; test -x run; cat d*/deep").await, format!("runa/b c{long}"));

    story.fake.stop_all();
    let again = futures::stream::iter(parts.clone().into_iter().map(Ok)).boxed();
    story.vercel.unpack(&story.sandbox, again).await.expect("a machine that stopped is woken before");

    let broken = parts.into_iter().take(2).map(Ok).chain([Err(std::io::Error::other("disk"))]);
    let unreadable = story.vercel.unpack(&story.sandbox, futures::stream::iter(broken).boxed()).await;
    assert!(matches!(unreadable, Err(Error::Unreadable(_))), "{unreadable:?}");
}

#[tokio::test]
async fn another_with_the_same_name_is_not_the_same_sandbox() {
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
async fn lost_files_are_a_new_sandbox() {
    let story = Story::begin().await;
    story.fake.meet("GET", "/bash-tools-chat-1", Trouble::Refuse(410, "snapshot_not_found"));
    let opened = story.vercel.open(&key("1")).await.unwrap();
    assert!(opened.is_new && opened.sandbox != story.sandbox);
    story.fake.stop_all();
    story.fake.meet("GET", "/bash-tools-chat-1", Trouble::Refuse(410, "snapshot_not_found"));
    let running =
        story.vercel.run(&opened.sandbox, Command { script: "true".into(), timeout: Duration::from_secs(1) });
    assert!(matches!(running.await, Err(Error::Gone)));
}

#[tokio::test]
async fn two_who_open_at_once_have_the_same() {
    let story = Story::begin().await;
    let others = [story.fake.provider(), story.fake.provider(), story.fake.provider()];
    let key = key("2");
    let opened = futures::future::join_all(others.iter().map(|vercel| vercel.open(&key))).await;
    let opened: Vec<_> = opened.into_iter().map(Result::unwrap).collect();
    assert!(opened.iter().all(|it| it.sandbox == opened[0].sandbox));
    assert_eq!(opened.iter().filter(|it| it.is_new).count(), 1);
    // The same, where one is not seen and yet there.
    story.fake.meet("GET", "/bash-tools-chat-2", Trouble::Refuse(404, "not_found"));
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
    let story = Story::with(VercelWish { source: Some(source), ..wish() }).await;
    let listed =
        "git status --porcelain; git log --format=%s; find . -name .git -prune -o -type f -print | sort";
    assert_eq!(story.output(listed).await, "first\n./.hidden\n./src/s\n./workspace/w\n");
    story.output("echo mine >src/s").await;
    story.fake.stop_all();
    assert_eq!(story.output("cat src/s").await, "mine\n");
}

#[tokio::test]
async fn a_port_has_a_url_only_where_the_sandbox_was_made_with_it() {
    let story = Story::begin().await;
    let url = story.vercel.url(&story.sandbox, 3000).await.unwrap();
    assert_eq!(url, "https://bash-tools-chat-1-3000.vercel.run");
    let refused = story.vercel.url(&story.sandbox, 4000).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { said } if said.contains("4000")), "{refused:?}");
}

#[tokio::test]
async fn who_is_not_let_in_is_told_without_the_token() {
    let fake = Fake::start().await;
    let wrong = Credentials::new("wrong-t0ken".into(), TEAM.into(), PROJECT.into()).unwrap();
    let vercel = Vercel::new(&fake.base, wrong, wish()).unwrap();
    let error = vercel.open(&key("1")).await.unwrap_err();
    assert!(matches!(error, Error::Unauthenticated), "{error:?}");
    assert!(!format!("{vercel:?} {error:?} {error}").contains("t0ken"));

    // Words that hold the token come in every kind of refusal.
    let vercel = fake.provider();
    for status in [400, 409, 429, 500] {
        fake.meet("POST", "/sandboxes", Trouble::Refuse(status, TOKEN));
        let error = vercel.open(&key("1")).await.unwrap_err();
        let said = format!("{vercel:?} {error:?} {error}");
        assert!(said.contains("[the token]") && !said.contains(TOKEN), "{status}: {said}");
    }
}

#[tokio::test]
async fn a_provider_that_is_away_is_told() {
    let credentials = Credentials::new(TOKEN.into(), TEAM.into(), PROJECT.into()).unwrap();
    let vercel = Vercel::new("http://127.0.0.1:9/api", credentials, wish()).unwrap();
    let broken = vercel.open(&key("1")).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)) && broken.is_passing(), "{broken:?}");
    assert!(!format!("{broken:?}").contains(TEAM), "{broken:?}");
}

#[tokio::test]
async fn the_stand_in_takes_no_wrong_request() {
    let story = Story::begin().await;
    let http = reqwest::Client::new();
    let base = format!("{}/v2/sandboxes", story.fake.base);
    let ask = |path: &str| http.get(format!("{base}{path}")).bearer_auth(TOKEN);
    let json = ("content-type", "application/json");
    let team = [("teamId", TEAM)];
    let right = ask("/x").header(json.0, json.1).query(&team).query(&[("projectId", PROJECT)]);
    assert_eq!(right.send().await.unwrap().status(), 404);
    assert_eq!(story.fake.violations(), Vec::<String>::new());
    for wrong in [
        ask("/x").query(&team).query(&[("projectId", PROJECT)]),
        ask("/x").header(json.0, json.1).query(&[("projectId", PROJECT)]),
        ask("/x").header(json.0, json.1).query(&team),
        http.post(&base).bearer_auth(TOKEN).query(&team).json(&serde_json::json!({"name": "x"})),
    ] {
        assert_eq!(wrong.send().await.unwrap().status(), 400);
        assert_eq!(story.fake.violations().len(), 1);
    }
}

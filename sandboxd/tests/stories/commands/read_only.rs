//! `readOnly`: a command that cannot write to the workspace in any way and otherwise behaves like any other.

use std::path::PathBuf;
use std::time::Instant;

use sandbox_api::command::{
    CommandState, EndReason, KillCommand, ReadOnlyViolation, RunCommand, StartCommand,
};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::{CommandId, ErrorCode, SandboxId};
use sandbox_client::Error;

use crate::support::harness::{
    Daemon, Outcome, outcome, over_each_transport, script, skipped_under_gvisor, until,
};
use crate::support::processes::agent_descriptors;

over_each_transport!(
    nothing_can_be_written_and_everything_can_be_read,
    every_way_to_write_to_the_workspace_is_blocked,
    a_refused_write_is_reported,
    a_read_only_command_is_like_any_other,
    a_read_only_command_that_cannot_start_says_why,
);

const NO_LANDLOCK: &str = "its kernel has no Landlock";

fn read_only(text: &str) -> StartCommand {
    StartCommand { read_only: Some(true), ..script(text) }
}

async fn run(daemon: &Daemon, sandbox: &SandboxId, text: &str) -> Outcome {
    outcome(daemon.client.run(sandbox, &read_only(text)).await.unwrap()).await
}

/// Everything in the workspace: names, types, modes, owners, sizes, links, times and content.
async fn workspace(daemon: &Daemon, sandbox: &SandboxId) -> String {
    let look =
        "find . -printf '%p %y %m %U %s %n %l %T@\\n' | sort; find . -type f -exec sha256sum {} + | sort";
    daemon.output(sandbox, look).await
}

async fn nothing_can_be_written_and_everything_can_be_read(daemon: &Daemon) {
    if skipped_under_gvisor(NO_LANDLOCK) {
        return;
    }
    let sandbox = daemon.sandbox("chat:1").await;
    daemon
        .output(
            &sandbox,
            "echo kept > file; printf '#!/bin/sh\\necho ran\\n' > tool; chmod +x tool; mkdir dir",
        )
        .await;
    let received = run(daemon, &sandbox, "cat file; ./tool; ls; cd dir; pwd; grep -r kept .. | wc -l").await;
    assert_eq!(
        (received.exit_code, received.text().as_str()),
        (0, "kept\nran\ndir\nfile\ntool\n/vercel/sandbox/workspace/dir\n1\n")
    );
    // It can write everywhere else.
    let elsewhere = "for dir in /tmp /var/tmp /dev/shm \"$TMPDIR\" \"$XDG_CACHE_HOME\"; do
        mkdir -p $dir && echo x > $dir/x && mv $dir/x $dir/y && mkdir $dir/d && mv $dir/y $dir/d/z && ln $dir/d/z $dir/l && rm -r $dir/d $dir/l || echo $dir
        done; echo x > /dev/null; cat <<< here; mktemp > /dev/null && echo all";
    let received = run(daemon, &sandbox, elsewhere).await;
    assert_eq!((received.exit_code, received.text().as_str()), (0, "here\nall\n"), "{received:?}");
    let node =
        run(daemon, &sandbox, "node -e 'console.log(1)'; python3 -c 'print(2)'; git --version | cut -c1-3")
            .await;
    assert_eq!(node.text(), "1\n2\ngit\n", "{node:?}");
    // The next command can write again.
    assert_eq!(daemon.output(&sandbox, "echo more >> file; cat file").await, "kept\nmore\n");
}

async fn every_way_to_write_to_the_workspace_is_blocked(daemon: &Daemon) {
    if skipped_under_gvisor(NO_LANDLOCK) {
        return;
    }
    let (sandbox, control) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:control").await);
    let prepare = "find . $TMPDIR /tmp -mindepth 1 -delete
        git init -q .; printf k > file; printf x > other; mkdir dir full; printf y > full/inner
        ln -s file link; mkfifo fifo; git add file; git commit -qm first; printf kept > file
        printf '' | tee /tmp/empty > $TMPDIR/empty; ln -s $PWD/file /tmp/in; ln -s $PWD $TMPDIR/in";
    daemon.output(&sandbox, prepare).await;
    let before = workspace(daemon, &sandbox).await;
    let shell = [
        "echo x > file",
        "echo x >> file",
        "echo x > new",
        "echo x > link",
        "echo x > /tmp/in",
        "echo x > $TMPDIR/in/file",
        "echo x > /proc/self/cwd/file",
        "echo x > /proc/self/root/vercel/sandbox/workspace/file",
        ": > file",
        "truncate -s 0 file",
        "truncate -s 100 file",
        "touch new",
        "mkdir new",
        "rmdir dir",
        "rm -f file",
        "rm -rf full",
        "unlink link",
        "mv file renamed",
        "mv file dir/",
        "mv file /tmp/out",
        "mv file $TMPDIR/out",
        "mv full $TMPDIR/full",
        "mv /tmp/empty file",
        "mv /tmp/empty new",
        "mv $TMPDIR/in new",
        "cp /tmp/empty new",
        "cp /tmp/empty file",
        "ln file hard",
        "ln file $TMPDIR/hard",
        "ln $TMPDIR/empty hard",
        "ln -s file soft",
        "mkfifo new",
        "mknod new p",
        "tee file < /tmp/empty",
        "dd if=/dev/zero of=file count=1",
        "fallocate -l 4096 file",
        "sed -i s/k/c/ file",
        "install /tmp/empty new",
        "tar -C . -cf - file | tar -C dir -xf -",
        "git checkout file",
        "git add file",
        "git -c user.name=x commit -qm x --allow-empty",
        "git init -q new",
        "git stash",
        "sqlite3 new 'create table t(a)'",
        "npm init -y",
        "python3 -m venv new",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"new\")'",
        "bash -c 'echo x > file'",
        "setsid --wait bash -c 'echo x > file'",
        "(setsid nohup bash -c 'echo x > new' &) ; sleep 0.3; [ -e new ]",
        "exec 3<>file; echo x >&3",
        "find . -name other -delete; [ ! -e other ]",
    ];
    // Actions that no command of a sandbox may perform.
    let never = [
        "unshare -Urm true",
        "mount --bind /tmp dir",
        "echo x > /proc/1/root/vercel/sandbox/workspace/file",
        "echo x > /proc/1/cwd/file",
    ];
    let mut idle = Vec::new();
    for line in shell {
        let received = run(daemon, &sandbox, line).await;
        assert_ne!(received.exit_code, 0, "{line}: {received:?}");
        assert_eq!(received.read_only_violation.is_none(), line.contains("/proc/"), "{line}: {received:?}");
        // These would work without `readOnly`.
        daemon.output(&control, prepare).await;
        let worked = daemon.run(&control, line).await;
        if worked.exit_code != 0 {
            idle.push((line, String::from_utf8_lossy(&worked.stderr).into_owned()));
        }
    }
    assert!(idle.is_empty(), "these fail by themselves: {idle:#?}");
    for line in never {
        assert_ne!(run(daemon, &sandbox, line).await.exit_code, 0, "{line}");
    }
    let attempts = format!("python3 - <<'END'\n{PYTHON}\nEND");
    let received = run(daemon, &sandbox, &attempts).await;
    assert_eq!((received.exit_code, received.text().as_str()), (0, "done\n"), "{received:?}");
    daemon.output(&control, prepare).await;
    let worked = daemon.run(&control, &attempts).await.text();
    let wanted = PYTHON.lines().filter_map(|line| line.strip_prefix("    '")?.split('\'').next());
    let idle: Vec<&str> = wanted.filter(|name| !worked.lines().any(|line| line == *name)).collect();
    assert_eq!(idle, NEVER_BY_ANYBODY, "these fail by themselves");
    // A file that could not be moved was at most copied to a writable place.
    assert_eq!(workspace(daemon, &sandbox).await, before);
}

/// The attempts below that no process may make at all.
const NEVER_BY_ANYBODY: [&str; 3] = ["ftruncate of what is read", "mmap of what is read", "mem of the agent"];

/// Each of these must fail, in the process itself, its threads and its children.
const PYTHON: &str = include_str!("read_only_attempts.py");

/// The first write that was refused, as `operation path`.
fn violation(received: Option<ReadOnlyViolation>) -> Option<String> {
    received.map(|ReadOnlyViolation { operation, path }| format!("{operation} {path}"))
}

async fn a_refused_write_is_reported(daemon: &Daemon) {
    if skipped_under_gvisor(NO_LANDLOCK) {
        return;
    }
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir -p dir/sub; echo kept > file; ln -s ../file dir/link; mkfifo fifo").await;
    for (text, wanted) in [
        ("echo x > file", Some("write file")),
        ("echo x >> dir/link", Some("write file")),
        ("cd dir/sub; echo x > ../../new", Some("create new")),
        ("mkdir 'a b'; rm file", Some("create a b")),
        ("rm -f missing file", Some("delete file")),
        ("mv file /tmp/file", Some("rename file")),
        ("echo x > /tmp/x; mv /tmp/x dir/x", Some("rename dir/x")),
        ("truncate -s 0 /vercel/sandbox/workspace/dir/../file", Some("write file")),
        ("ln -s x dir/new", Some("create dir/new")),
        ("ln file /tmp/hard; ln file dir/file", Some("link file")),
        (
            "exec 3< dir; cd /; echo x > /dev/null; python3 -c 'import os; os.unlink(\"link\", dir_fd=3)'",
            Some("delete dir/link"),
        ),
        ("(sleep 0.2; touch later) & wait", Some("create later")),
        ("printf x > $'\\xff'", Some("create \u{fffd}")),
        // A write that is not refused, or that fails for another reason.
        ("cat file dir/link > /dev/null; ls; grep -r kept . > /tmp/found", None),
        (
            "mkdir dir; mkdir -p dir/sub; rm missing; rmdir missing; mv missing other; set -o noclobber; echo x > file",
            None,
        ),
        ("echo x > $TMPDIR/x; mkdir -p /tmp/d; rm -r /tmp/d $TMPDIR/x", None),
        ("echo x > /etc/passwd; echo x > dir; echo x > missing/x; chmod 600 file", None),
    ] {
        let received = run(daemon, &sandbox, text).await;
        assert_eq!(
            violation(received.read_only_violation.clone()).as_deref(),
            wanted,
            "{text}: {received:?}"
        );
    }
    // An ordinary command has none.
    let ordinary =
        outcome(daemon.client.run(&sandbox, &script("rm missing; mkdir dir")).await.unwrap()).await;
    assert_eq!(ordinary.read_only_violation, None);

    let wanted = Some("create new".to_owned());
    let command = RunCommand { command: read_only("touch new"), output: None };
    let ran = daemon.client.run_to_end(&sandbox, &command).await.unwrap();
    assert_eq!(violation(ran.read_only_violation), wanted);
    let started = daemon.client.start(&sandbox, &read_only("touch new")).await.unwrap().command_id;
    let waited = daemon.client.wait(&sandbox, &started, None).await.unwrap();
    assert_eq!(violation(waited.read_only_violation), wanted);
    // Also when only the store knows the command.
    daemon.client.park(&sandbox, false).await.unwrap();
    let waited = daemon.client.wait(&sandbox, &started, None).await.unwrap();
    assert_eq!(violation(waited.read_only_violation), wanted);

    // The value of a secret variable is not shown.
    let env = [("TOKEN".to_owned(), "hunter2hunter2".to_owned())].into();
    let request = CreateSandbox {
        session_key: "chat:secret".into(),
        env: Some(env),
        secret_env: Some(vec!["TOKEN".into()]),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let received = run(daemon, &sandbox, "touch a-$TOKEN").await;
    assert_eq!(violation(received.read_only_violation).as_deref(), Some("create a-[TOKEN]"));
}

async fn a_read_only_command_is_like_any_other(daemon: &Daemon) {
    if skipped_under_gvisor(NO_LANDLOCK) {
        return;
    }
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir sub").await;
    // A command's environment, apart from its id, its process numbers, its limit on file locks and the number of its
    // seccomp filters. It gets its OOM score just after its start.
    let look = r#"for _ in {1..100}; do [ $(</proc/$$/oom_score_adj) = 1000 ] && break; sleep 0.1; done
        pwd; env | grep -v '^SANDBOX_COMMAND_ID=\|^_=' | sort; ulimit -a | grep -v 'file locks'; cat /proc/self/oom_score_adj; umask; id
        grep -E '^(Sig|Shd|Cap|NoNewPrivs|Seccomp:)' /proc/self/status | grep -v SigQ; ls -1 /proc/self/fd | wc -l
        readlink /proc/$$/exe; tr '\0' ' ' < /proc/$$/cmdline | head -c 7; [ $(ps -o sid= $$) = $$ ] && echo leads; cat"#;
    let request = |read_only| StartCommand {
        cwd: Some("sub".into()),
        env: Some([("GREETING".to_owned(), "hé llo".to_owned())].into()),
        stdin: Some("from stdin".into()),
        read_only: Some(read_only),
        ..script(look)
    };
    let mut received = Vec::new();
    for read_only in [false, true] {
        let outcome = outcome(daemon.client.run(&sandbox, &request(read_only)).await.unwrap()).await;
        assert_eq!((outcome.exit_code, outcome.stderr.as_slice()), (0, &b""[..]));
        received.push(outcome.text());
    }
    assert!(received[0].contains("leads") && received[0].ends_with("from stdin"), "{}", received[0]);
    assert_eq!(received[0], received[1]);

    let argv = StartCommand {
        cmd: Some("bash".into()),
        args: Some(["-c", "echo \"$0|$*\"; exit 7", "name", "a b", ""].map(Into::into).into()),
        read_only: Some(true),
        ..StartCommand::default()
    };
    let ended = outcome(daemon.client.run(&sandbox, &argv).await.unwrap()).await;
    assert_eq!((ended.exit_code, ended.text().as_str()), (7, "name|a b \n"));
    let long = format!("{}\necho end > new || echo refused", "# filler\n".repeat(40_000));
    assert_eq!(
        run(daemon, &sandbox, &long).await.text(),
        "refused\n",
        "a script that is not passed as an argument"
    );
    // A closed reader ends it like any other command: SIGPIPE is not ignored.
    assert_eq!(run(daemon, &sandbox, "yes | head -1; echo ${PIPESTATUS[0]}").await.text(), "y\n141\n");

    let request = StartCommand {
        timeout_ms: Some(1000),
        ..read_only("trap '' TERM; echo here; while :; do sleep 0.1; done")
    };
    let late = outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
    assert_eq!((late.exit_code, late.reason, late.text().as_str()), (124, EndReason::Timeout, "here\n"));

    let id: CommandId = "cmd_readOnlyAndDetached0".parse().unwrap();
    let request = StartCommand {
        detached: Some(true),
        open_stdin: Some(true),
        command_id: Some(id.to_string()),
        ..read_only("setsid sleep 77 & read line; echo \"$line\"; echo x > new; setsid sleep 78 & sleep 79")
    };
    // The same id is the same command, also while it starts.
    let starts = (0..8).map(|_| daemon.client.start(&sandbox, &request));
    for started in futures::future::join_all(starts).await {
        started.unwrap();
    }
    daemon.client.write_stdin(&sandbox, &id, "received\n", false).await.unwrap();
    until("its child processes run", || async {
        daemon.output(&sandbox, "pgrep -c sleep || true").await == "3\n"
    })
    .await;
    assert_eq!(daemon.client.inspect(&sandbox, &id).await.unwrap().state, CommandState::Running);
    daemon.client.kill(&sandbox, &id, &KillCommand::default()).await.unwrap();
    assert_eq!(daemon.run(&sandbox, "pgrep sleep").await.text(), "");
    let ended = outcome(daemon.client.logs(&sandbox, &id, 0, true).await.unwrap()).await;
    assert_eq!(
        (ended.exit_code, ended.reason, ended.text().as_str()),
        (143, EndReason::Killed, "received\n")
    );
    assert_eq!(daemon.output(&sandbox, "ls").await, "sub\n");
}

async fn a_read_only_command_that_cannot_start_says_why(daemon: &Daemon) {
    if skipped_under_gvisor(NO_LANDLOCK) {
        return;
    }
    let sandbox = daemon.sandbox("chat:1").await;
    let prepare = "printf '#!/no/such/interpreter\\n' > odd; printf 'echo hi\\n' > bare; touch plain; chmod +x odd bare; mkdir dir";
    daemon.output(&sandbox, prepare).await;
    let program = |cmd: &str| StartCommand { cmd: Some(cmd.into()), ..StartCommand::default() };
    let nowhere = StartCommand { cwd: Some("no/such/dir".into()), ..script("true") };
    for request in [
        program("no-such-program"),
        program("./odd"),
        program("./bare"),
        program("./plain"),
        program("./dir"),
        program("./missing"),
        nowhere,
    ] {
        let mut reported = Vec::new();
        for read_only in [false, true] {
            let request = StartCommand { read_only: Some(read_only), ..request.clone() };
            let started = daemon.client.start(&sandbox, &request).await.map(drop);
            let run = daemon.client.run(&sandbox, &request).await.map(drop);
            for error in [started.unwrap_err(), run.unwrap_err()] {
                assert_eq!(error.code(), Some(ErrorCode::Refused), "{request:?}: {error}");
                let Error::Refused { body, .. } = error else { panic!("{error}") };
                reported.push((body.error, body.details));
            }
        }
        assert!(reported.iter().all(|one| *one == reported[0]), "{request:?}: {reported:?}");
    }
    // A command that did not start is not recorded.
    let named = StartCommand {
        command_id: Some("cmd_neverStarted00000".into()),
        read_only: Some(true),
        ..program("no-such-program")
    };
    daemon.client.start(&sandbox, &named).await.unwrap_err();
    let id = "cmd_neverStarted00000".parse().unwrap();
    assert_eq!(daemon.client.inspect(&sandbox, &id).await.unwrap_err().code(), Some(ErrorCode::NotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_processes_cannot_write_on_its_behalf() {
    if skipped_under_gvisor(NO_LANDLOCK) {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    // A helper from an earlier command: it writes on a signal, and on a connection to its abstract socket.
    let helper = r#"python3 - <<'END' &
import os, signal, socket
signal.signal(signal.SIGUSR1, lambda *_: open('signalled', 'w'))
s = socket.socket(socket.AF_UNIX); s.bind('\0helper'); s.listen()
held = open('held', 'w')
open('/tmp/pid', 'w').write(str(os.getpid()))
while True:
    c, _ = s.accept()
    open('called', 'w')
END
sleep 100"#;
    let command = daemon.client.start(&sandbox, &script(helper)).await.unwrap().command_id;
    until("the helper is ready", || async { daemon.run(&sandbox, "[ -s /tmp/pid ]").await.exit_code == 0 })
        .await;
    for line in [
        "kill -USR1 $(cat /tmp/pid)",
        "kill -USR1 -- -$(ps -o pgid= $(cat /tmp/pid) | tr -d ' ')",
        "python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(\"\\0helper\")'",
        "pid=$(cat /tmp/pid); for fd in 3 4 5; do echo x > /proc/$pid/fd/$fd && exit 0; done; exit 1",
        "echo x > /proc/$(cat /tmp/pid)/cwd/held",
        "head -c 1 /proc/$(cat /tmp/pid)/environ",
        "python3 -c 'import ctypes,sys; l=ctypes.CDLL(None); p=int(open(\"/tmp/pid\").read()); sys.exit(l.ptrace(16, p, 0, 0) != 0)'",
    ] {
        let received = run(&daemon, &sandbox, line).await;
        assert_ne!(received.exit_code, 0, "{line}: {received:?}");
    }
    // The same requests work from a command that may write, so the failures above are not accidental.
    daemon.output(&sandbox, "kill -USR1 $(cat /tmp/pid); python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(\"\\0helper\")'").await;
    until("the helper wrote", || async {
        daemon.run(&sandbox, "[ -e signalled ] && [ -e called ]").await.exit_code == 0
    })
    .await;
    daemon.client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    // Read-only commands can signal and connect to each other.
    let own = run(&daemon, &sandbox, "sleep 50 & kill $!; wait $!; echo $?").await;
    assert_eq!(own.text(), "143\n");
    daemon.stop().await;
}

/// Each attempt to write waits for the agent, which must have time for everything else too.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_attempts_does_not_hold_up_other_commands() {
    if skipped_under_gvisor(NO_LANDLOCK) {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let flood = "touch /tmp/begun; for n in {1..8}; do
        python3 -c 'import os
while True:
    for path in (\"/tmp/a\", \"/tmp/\" + \"x/../\" * 800 + \"a\", \"new\"):
        try: os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        except OSError: pass' & done; wait";
    let flood = daemon.client.start(&sandbox, &read_only(flood)).await.unwrap().command_id;
    until("the flood has begun", || async { daemon.run(&sandbox, "[ -e /tmp/a ]").await.exit_code == 0 })
        .await;
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(daemon.output(&sandbox, "echo x > file; cat file").await, "x\n");
        assert_eq!(run(&daemon, &sandbox, "cat file").await.text(), "x\n");
    }
    println!("40 commands beside a flood of attempts to write | {:.1?}", began.elapsed());
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    daemon.client.kill(&sandbox, &flood, &KillCommand::default()).await.unwrap();
    let ended = daemon.client.wait(&sandbox, &flood, None).await.unwrap();
    assert_eq!(violation(ended.read_only_violation).as_deref(), Some("create new"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_a_read_only_command_leaves_behind_still_work() {
    if skipped_under_gvisor(NO_LANDLOCK) {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let left = "(until [ -e /tmp/go ]; do sleep 0.05; done; touch new; mkdir /tmp/late) > /dev/null 2>&1 &";
    let ended = run(&daemon, &sandbox, left).await;
    assert_eq!((ended.exit_code, ended.read_only_violation), (0, None));
    daemon.output(&sandbox, "touch /tmp/go").await;
    until("it has created a directory", || async {
        daemon.run(&sandbox, "[ -d /tmp/late ]").await.exit_code == 0
    })
    .await;
    assert_eq!(daemon.output(&sandbox, "ls").await, "");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_read_only_commands_start_side_by_side() {
    if skipped_under_gvisor(NO_LANDLOCK) {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let began = Instant::now();
    let runs = (0..60).map(|at| {
        let (daemon, sandbox) = (&daemon, &sandbox);
        async move { run(daemon, sandbox, &format!("echo {at} 2>/dev/null > new || echo {at}")).await.text() }
    });
    let reported = futures::future::join_all(runs).await;
    assert!(reported.iter().enumerate().all(|(at, text)| *text == format!("{at}\n")), "{reported:?}");
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    // The agent keeps nothing of them.
    let is_listener = |path: &PathBuf| path.to_string_lossy().contains("seccomp");
    let listeners = async || agent_descriptors(&sandbox).await.iter().filter(|it| is_listener(it)).count();
    let sleeping = daemon.client.start(&sandbox, &read_only("sleep 60")).await.unwrap().command_id;
    assert!(listeners().await > 0);
    daemon.client.kill(&sandbox, &sleeping, &KillCommand::default()).await.unwrap();
    until("all listeners are closed", || async { listeners().await == 0 }).await;
    daemon.stop().await;
}

//! Code that attacks its own interpreter harms only its own context.

use sandbox_api::SandboxId;
use sandbox_api::context::{Language, RunStatus};

use crate::support::harness::Daemon;
use crate::support::runs::Interpreter;

/// A context whose state must survive.
async fn bystander(daemon: &Daemon, sandbox: &SandboxId) -> Interpreter {
    let bystander = Interpreter::open(daemon, sandbox, Language::Python).await;
    assert!(bystander.run("x = 'untouched'").await.is_ok());
    bystander
}

/// Python code that finds the control descriptor: the only socket.
const CONTROL: &str = "import os, stat\n\
    control = next(n for n in range(3, 64) if os.path.exists(f'/proc/self/fd/{n}') \
    and stat.S_ISSOCK(os.fstat(n).st_mode))\n";

#[tokio::test(flavor = "multi_thread")]
async fn closed_descriptors_and_garbage_end_only_their_context() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let bystander = bystander(&daemon, &sandbox).await;
    let attacks = [
        "import os\nos.closerange(0, 4096)".to_owned(),
        format!("{CONTROL}os.close(control)"),
        format!("{CONTROL}os.write(control, b'no record at all' * 16)"),
        format!("{CONTROL}os.write(control, b'1 result 1\\ntext 99999999999\\n')"),
        format!("{CONTROL}os.write(control, b'1 result 999\\n')"),
    ];
    for attack in attacks {
        let attacker = Interpreter::open(&daemon, &sandbox, Language::Python).await;
        let ran = attacker.run(&attack).await;
        assert_eq!((ran.status, ran.state_lost), (Some(RunStatus::Died), true), "{attack}: {ran:?}");
        let ran = attacker.run("1 + 1").await;
        assert_eq!((ran.text(), ran.restarted), ("2", true), "{attack}");
        attacker.close().await;
        assert_eq!(bystander.run("x").await.text(), "'untouched'", "{attack}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_records_count_for_the_current_run_only() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let attacker = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    let forged = "os.write(control, b'999 result 1\\ntext 5\\nwrong999 done 0\\n0 done 0\\n')\n'right'";
    let ran = attacker.run(&format!("{CONTROL}{forged}")).await;
    assert_eq!((ran.text(), ran.status), ("'right'", Some(RunStatus::Ok)));
    // It ends its own run early. The rest of it reports nothing in the next run.
    let early = "os.write(control, b'2 done 0\\n')\nimport time\ntime.sleep(0.5)\ndisplay('late')\n'late'";
    assert!(attacker.run(early).await.results.is_empty());
    let ran = attacker.run("'next'").await;
    assert_eq!((ran.text(), ran.displays.len()), ("'next'", 0), "{ran:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_streams_threads_and_forks_do_not_confuse_runs() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let python = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    let ran =
        python.run("import io, sys\nsys.stdout = io.StringIO()\nsys.stderr = None\nprint('hidden')\n1").await;
    assert_eq!((ran.text(), ran.stdout.as_str()), ("1", ""));
    assert!(python.run("sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__").await.is_ok());
    // The child returns from the code. It must neither end the run nor take the next one.
    let ran = python.run("import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nprint('parent' if child else 'child')").await;
    assert_eq!(ran.stdout, "child\nparent\n", "{ran:?}");
    let thread = "import threading, time\nhalt = threading.Event()\n\
        def flood():\n    while not halt.is_set():\n        print('x' * 1000)\n\
        threading.Thread(target=flood, daemon=True).start()";
    assert!(python.run(thread).await.is_ok());
    assert!(python.run("halt.set()").await.is_ok());
    assert!(
        python
            .run("class Evil:\n    def __repr__(self): raise ValueError\nEvil()")
            .await
            .text()
            .contains("Evil")
    );
    let evil = "class Evil(Exception):\n    def __str__(self): raise ValueError\nraise Evil()";
    assert_eq!(python.run(evil).await.errors[0].name, "Evil");
    assert_eq!(python.run("2").await.text(), "2");
    daemon.stop().await;
}

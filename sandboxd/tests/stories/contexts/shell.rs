//! Bash.

use sandbox_api::context::{Language, RunStatus};

use crate::support::harness::Daemon;
use crate::support::runs::{Interpreter, rest_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_keeps_its_variables_functions_and_directory() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let bash = Interpreter::open(&daemon, &sandbox, Language::Bash).await;
    let ran =
        bash.run("x=5; declare -A map=([a]=1); double() { echo $((2 * $1)); }; mkdir sub; cd sub").await;
    assert_eq!((ran.exit_code, ran.is_ok()), (Some(0), true), "{ran:?}");
    let ran = bash.run("double $x; echo ${map[a]} $PWD; echo problem >&2; (exit 7)").await;
    assert_eq!(ran.stdout, "10\n1 /vercel/sandbox/workspace/sub\n");
    assert_eq!((ran.stderr.as_str(), ran.exit_code, ran.is_ok()), ("problem\n", Some(7), true));
    let ran = bash.run("echo 'unclosed").await;
    assert_eq!((ran.exit_code, ran.is_ok()), (Some(2), true), "{ran:?}");
    // No descriptor of the agent reaches a command.
    let descriptors = bash.run("ls /proc/self/fd | tr '\\n' ' '").await.stdout;
    assert_eq!(descriptors, "0 1 2 3 ", "3 is the directory that ls reads");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_program_that_runs() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let bash = Interpreter::open(&daemon, &sandbox, Language::Bash).await;
    let records = bash.begin("x=1; echo begun; sleep 60; echo not reached", "begun").await;
    assert!(bash.interrupt().await);
    let ran = rest_of(records).await;
    assert_eq!(
        (ran.status, ran.exit_code, ran.stdout.as_str()),
        (Some(RunStatus::Interrupted), Some(130), "")
    );
    assert_eq!(bash.run("echo $x").await.stdout, "1\n");
    daemon.stop().await;
}

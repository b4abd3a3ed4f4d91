//! The persistent shell: the ways in which its commands end, and the state afterwards.

use std::time::Duration;

use bash_tools::tools::anthropic::ShellInput;
use bash_tools::tools::{BashOutput, ToolLimits, Toolkit};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::shell::{restart, shell, write};
use crate::fixture::{Fixture, all, key, limits, over_each_provider, run};

over_each_provider!(
    a_failed_command_keeps_the_state,
    a_command_that_ends_the_shell_leaves_the_previous_state,
    a_command_that_times_out_leaves_the_previous_state,
    an_unreadable_state_is_reported_and_discarded,
    a_state_that_is_too_large_is_reported,
    concurrent_commands_run_one_after_the_other,
    background_processes_continue_and_delay_no_command,
);

async fn a_failed_command_keeps_the_state(fixture: &Fixture) {
    let tools = fixture.tools("1");
    assert_eq!(shell(&tools, "x=1; exit 3").await.exit_code, 3);
    assert_eq!(shell(&tools, "echo $x; (exit 4)").await.exit_code, 4);
    assert_eq!(shell(&tools, "set -e; false; echo never").await.exit_code, 1);
    let after = shell(&tools, "set +e; echo $x").await;
    assert_eq!((after.exit_code, after.stdout.as_str()), (0, "1\n"));
    assert_eq!(shell(&tools, "readonly fixed=1; fixed_too=2").await.exit_code, 0);
    let own = shell(&tools, "echo \"'\\\"$fixed_too\"; # a comment").await;
    assert_eq!((own.stdout.as_str(), own.stderr.as_str()), ("'\"2\n", ""));
}

async fn a_command_that_ends_the_shell_leaves_the_previous_state(fixture: &Fixture) {
    let tools = fixture.tools("1");
    write(&tools, &[("x=1", "")]).await;
    let is_unchanged = |reported: &BashOutput| reported.stderr.contains("command did not change");
    let reported = shell(&tools, "x=2; exec echo other").await;
    assert_eq!((reported.stdout.as_str(), reported.exit_code), ("other\n", 0));
    assert!(is_unchanged(&reported), "{reported:?}");
    let reported = shell(&tools, "x=3; kill -KILL $$").await;
    assert!(reported.exit_code == 137 && is_unchanged(&reported), "{reported:?}");
    let reported = shell(&tools, "x=4; trap 'echo bye' EXIT; exit 5").await;
    assert!(reported.stdout == "bye\n" && reported.exit_code == 5 && is_unchanged(&reported), "{reported:?}");
    write(&tools, &[("echo $x", "1\n")]).await;
    let reported = shell(&tools, "x=5; rm -rf .remcochat").await;
    assert!(reported.exit_code == 0 && is_unchanged(&reported), "{reported:?}");
}

async fn a_command_that_times_out_leaves_the_previous_state(fixture: &Fixture) {
    let limits = ToolLimits { timeout: Duration::from_secs(2), ..limits() };
    let tools = Toolkit::new(fixture.sessions(2), key("1"), limits);
    write(&tools, &[("x=1", "")]).await;
    let reported = shell(&tools, "x=2; echo begun; sleep 60").await;
    assert_eq!((reported.stdout.as_str(), reported.exit_code), ("begun\n", 124));
    assert!(
        reported.stderr.contains("command did not change") && reported.stderr.contains("timed out"),
        "{reported:?}"
    );
    write(&tools, &[("echo $x", "1\n")]).await;

    let cancel = CancellationToken::new();
    let input = ShellInput { command: Some("x=3; echo begun; sleep 60".into()), restart: None };
    let mut reported = Box::pin(tools.shell(input, cancel.clone()));
    while reported.next().await.unwrap().unwrap().stdout.is_empty() {}
    cancel.cancel();
    let last = all(reported).await.pop().unwrap();
    assert!(last.exit_code == 130 && last.stderr.contains("command did not change"), "{last:?}");
    write(&tools, &[("echo $x", "1\n")]).await;
}

async fn an_unreadable_state_is_reported_and_discarded(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let spoils = [
        "rm -f shell; mkdir -p shell/x",
        "rm -rf shell; echo 'exit 3' >shell",
        "rm -f shell; mkfifo shell",
        "ln -sf /dev/zero shell",
        ": >shell",
        "head -c 1000 shell >a; mv a shell",
        "mkdir -p shell.left/x; : >shell",
    ];
    for spoil in spoils {
        write(&tools, &[("x=1", "")]).await;
        run(&tools, &format!("cd .remcochat && {spoil}")).await;
        let reported = shell(&tools, "echo ${x-new}; x=2").await;
        assert!(reported.stdout == "new\n" && reported.stderr.contains("new shell"), "{spoil}: {reported:?}");
        write(&tools, &[("echo $x", "2\n")]).await;
        restart(&tools).await;
    }
    // A state that looks complete, but ends the shell when it is restored.
    run(&tools, r"printf 'shell 1\0exit 0\0end 3\0' >.remcochat/shell").await;
    let reported = shell(&tools, "echo ran").await;
    assert!(reported.stdout.is_empty() && reported.stderr.contains("was not run"), "{reported:?}");
    assert_ne!(reported.exit_code, 0);
    write(&tools, &[("echo ran", "ran\n")]).await;
    run(&tools, "rm -rf .remcochat/shell; mkdir -p .remcochat/shell/x").await;
    assert_eq!(restart(&tools).await.stdout, "tool has been restarted.\n");
    write(&tools, &[("echo ran", "ran\n")]).await;
}

async fn a_state_that_is_too_large_is_reported(fixture: &Fixture) {
    let tools = fixture.tools("1");
    write(&tools, &[("x=1", "")]).await;
    let reported = shell(&tools, "x=2; y=$(printf %01100000d 0)").await;
    assert!(reported.exit_code == 0 && reported.stderr.contains("larger than 1048576 bytes"), "{reported:?}");
    write(&tools, &[("echo $x", "1\n")]).await;
    run(&tools, "rm -rf .remcochat; echo >.remcochat").await;
    let reported = shell(&tools, "x=2; echo ran").await;
    assert!(reported.stdout == "ran\n" && reported.stderr.contains("is not writable"), "{reported:?}");
}

async fn concurrent_commands_run_one_after_the_other(fixture: &Fixture) {
    let tools = fixture.tools("1");
    write(&tools, &[("n=0", "")]).await;
    let add = || shell(&tools, "m=$n; sleep 0.2; n=$((m + 1))");
    futures::join!(add(), add(), add(), add());
    write(&tools, &[("echo $n", "4\n")]).await;

    let hasty = ToolLimits { timeout: Duration::from_secs(1), ..limits() };
    let hasty = Toolkit::new(fixture.sessions(2), key("1"), hasty);
    let input = ShellInput { command: Some("echo begun; sleep 5; n=5".into()), restart: None };
    let mut first = Box::pin(tools.shell(input, CancellationToken::new()));
    while first.next().await.unwrap().unwrap().stdout.is_empty() {}
    let reported = shell(&hasty, "n=6").await;
    assert!(reported.exit_code == 75 && reported.stderr.contains("was not run"), "{reported:?}");
    all(first).await;
    write(&tools, &[("echo $n", "5\n")]).await;
}

async fn background_processes_continue_and_delay_no_command(fixture: &Fixture) {
    let tools = fixture.tools("1");
    write(&tools, &[("sleep 30 >/dev/null 2>&1 & pid=$!", "")]).await;
    write(&tools, &[("kill -0 $pid && echo runs; kill $pid", "runs\n")]).await;
}

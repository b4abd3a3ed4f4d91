//! The shell that remembers: how its commands end, and what becomes of it then.

use std::time::Duration;

use bash_tools::tools::anthropic::ShellInput;
use bash_tools::tools::{BashOutput, ToolLimits, Toolkit};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::shell::{restart, shell, write};
use crate::place::{Place, all, key, limits, over_each_provider, run};

over_each_provider!(
    a_shell_that_fails_is_not_forgotten,
    a_command_that_takes_the_shell_with_it_leaves_it_as_it_was,
    a_command_that_runs_out_of_time_leaves_the_shell_as_it_was,
    a_memory_that_cannot_be_read_is_told_and_forgotten,
    too_much_to_remember_is_told,
    of_two_commands_at_once_one_waits,
    what_runs_in_the_background_goes_on_and_keeps_nobody_waiting,
);

async fn a_shell_that_fails_is_not_forgotten(place: &Place) {
    let tools = place.tools("1");
    assert_eq!(shell(&tools, "x=1; exit 3").await.exit_code, 3);
    assert_eq!(shell(&tools, "echo $x; (exit 4)").await.exit_code, 4);
    assert_eq!(shell(&tools, "set -e; false; echo never").await.exit_code, 1);
    let after = shell(&tools, "set +e; echo $x").await;
    assert_eq!((after.exit_code, after.stdout.as_str()), (0, "1\n"));
    assert_eq!(shell(&tools, "readonly fixed=1; fixed_too=2").await.exit_code, 0);
    let own = shell(&tools, "echo \"'\\\"$fixed_too\"; # a comment").await;
    assert_eq!((own.stdout.as_str(), own.stderr.as_str()), ("'\"2\n", ""));
}

async fn a_command_that_takes_the_shell_with_it_leaves_it_as_it_was(place: &Place) {
    let tools = place.tools("1");
    write(&tools, &[("x=1", "")]).await;
    let as_before = |told: &BashOutput| told.stderr.contains("it is as it was before");
    let told = shell(&tools, "x=2; exec echo other").await;
    assert_eq!((told.stdout.as_str(), told.exit_code), ("other\n", 0));
    assert!(as_before(&told), "{told:?}");
    let told = shell(&tools, "x=3; kill -KILL $$").await;
    assert!(told.exit_code == 137 && as_before(&told), "{told:?}");
    let told = shell(&tools, "x=4; trap 'echo bye' EXIT; exit 5").await;
    assert!(told.stdout == "bye\n" && told.exit_code == 5 && as_before(&told), "{told:?}");
    write(&tools, &[("echo $x", "1\n")]).await;
    let told = shell(&tools, "x=5; rm -rf .remcochat").await;
    assert!(told.exit_code == 0 && as_before(&told), "{told:?}");
}

async fn a_command_that_runs_out_of_time_leaves_the_shell_as_it_was(place: &Place) {
    let limits = ToolLimits { timeout: Duration::from_secs(2), ..limits() };
    let tools = Toolkit::new(place.sessions(2), key("1"), limits);
    write(&tools, &[("x=1", "")]).await;
    let told = shell(&tools, "x=2; echo begun; sleep 60").await;
    assert_eq!((told.stdout.as_str(), told.exit_code), ("begun\n", 124));
    assert!(told.stderr.contains("as it was before") && told.stderr.contains("timed out"), "{told:?}");
    write(&tools, &[("echo $x", "1\n")]).await;

    let cancel = CancellationToken::new();
    let input = ShellInput { command: Some("x=3; echo begun; sleep 60".into()), restart: None };
    let mut told = Box::pin(tools.shell(input, cancel.clone()));
    while told.next().await.unwrap().unwrap().stdout.is_empty() {}
    cancel.cancel();
    let last = all(told).await.pop().unwrap();
    assert!(last.exit_code == 130 && last.stderr.contains("as it was before"), "{last:?}");
    write(&tools, &[("echo $x", "1\n")]).await;
}

async fn a_memory_that_cannot_be_read_is_told_and_forgotten(place: &Place) {
    let tools = place.tools("1");
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
        let told = shell(&tools, "echo ${x-new}; x=2").await;
        assert!(told.stdout == "new\n" && told.stderr.contains("new shell"), "{spoil}: {told:?}");
        write(&tools, &[("echo $x", "2\n")]).await;
        restart(&tools).await;
    }
    // As whole as one that this shell wrote.
    run(&tools, r"printf 'shell 1\0exit 0\0end 3\0' >.remcochat/shell").await;
    let told = shell(&tools, "echo ran").await;
    assert!(told.stdout.is_empty() && told.stderr.contains("was not run"), "{told:?}");
    assert_ne!(told.exit_code, 0);
    write(&tools, &[("echo ran", "ran\n")]).await;
    run(&tools, "rm -rf .remcochat/shell; mkdir -p .remcochat/shell/x").await;
    assert_eq!(restart(&tools).await.stdout, "tool has been restarted.\n");
    write(&tools, &[("echo ran", "ran\n")]).await;
}

async fn too_much_to_remember_is_told(place: &Place) {
    let tools = place.tools("1");
    write(&tools, &[("x=1", "")]).await;
    let told = shell(&tools, "x=2; y=$(printf %01100000d 0)").await;
    assert!(told.exit_code == 0 && told.stderr.contains("more than 1048576 bytes"), "{told:?}");
    write(&tools, &[("echo $x", "1\n")]).await;
    run(&tools, "rm -rf .remcochat; echo >.remcochat").await;
    let told = shell(&tools, "x=2; echo ran").await;
    assert!(told.stdout == "ran\n" && told.stderr.contains("cannot be written to"), "{told:?}");
}

async fn of_two_commands_at_once_one_waits(place: &Place) {
    let tools = place.tools("1");
    write(&tools, &[("n=0", "")]).await;
    let add = || shell(&tools, "m=$n; sleep 0.2; n=$((m + 1))");
    futures::join!(add(), add(), add(), add());
    write(&tools, &[("echo $n", "4\n")]).await;

    let hasty = ToolLimits { timeout: Duration::from_secs(1), ..limits() };
    let hasty = Toolkit::new(place.sessions(2), key("1"), hasty);
    let input = ShellInput { command: Some("echo begun; sleep 5; n=5".into()), restart: None };
    let mut first = Box::pin(tools.shell(input, CancellationToken::new()));
    while first.next().await.unwrap().unwrap().stdout.is_empty() {}
    let told = shell(&hasty, "n=6").await;
    assert!(told.exit_code == 75 && told.stderr.contains("was not run"), "{told:?}");
    all(first).await;
    write(&tools, &[("echo $n", "5\n")]).await;
}

async fn what_runs_in_the_background_goes_on_and_keeps_nobody_waiting(place: &Place) {
    let tools = place.tools("1");
    write(&tools, &[("sleep 30 >/dev/null 2>&1 & pid=$!", "")]).await;
    write(&tools, &[("kill -0 $pid && echo runs; kill $pid", "runs\n")]).await;
}

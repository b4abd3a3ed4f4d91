//! Out-of-memory ends are reported for the killed command and for no other.

use std::fs;
use std::time::{Duration, Instant};

use futures::future::join_all;
use sandbox_api::command::{EndReason, StartCommand};
use sandboxd::model::limits;
use tokio_util::sync::CancellationToken;

use crate::support::harness::{Daemon, Outcome, outcome, script, until};
use crate::support::host_view::HostView;
use crate::support::limits::{HOG, small};
use crate::support::limits::{Scene, python, sandbox_with};

#[tokio::test(flavor = "multi_thread")]
async fn other_commands_of_the_sandbox_keep_their_own_end_reason() {
    let scene = Scene::with(small()).await;
    let client = &scene.daemon.client;
    let survivor = script("until [ -e hog-is-dead ]; do sleep 0.05; done; echo survived");
    let survivor = client.run(&scene.attacker, &survivor).await.unwrap();
    let failing = script("until [ -e hog-is-dead ]; do sleep 0.05; done; kill $$");
    let failing = client.run(&scene.attacker, &failing).await.unwrap();
    let hog = scene.attack("a hog beside two commands", scene.run(HOG)).await;
    assert_eq!(hog.reason, EndReason::Oom);
    scene.daemon.output(&scene.attacker, "touch hog-is-dead").await;
    let survivor = outcome(survivor).await;
    assert_eq!((survivor.text().as_str(), survivor.reason), ("survived\n", EndReason::Exited));
    let failing = outcome(failing).await;
    assert_eq!((failing.exit_code, failing.reason), (143, EndReason::Killed));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_sandboxs_oom_is_not_reported_here() {
    let scene = Scene::with(small()).await;
    let (client, bystander) = (&scene.daemon.client, &scene.bystander);
    let over = CancellationToken::new();
    let hogs = async {
        let mut hogs = 0;
        while !over.is_cancelled() {
            assert_eq!(scene.run(HOG).await.reason, EndReason::Oom);
            hogs += 1;
        }
        hogs
    };
    let killed = async {
        // As long as a few deaths of the neighbour's commands, and then its own KILL.
        let request = script("sleep 2; kill -9 $$");
        let streamed = outcome(client.run(bystander, &request).await.unwrap()).await;
        let in_a_shell = scene.daemon.run(bystander, "bash -c 'sleep 1; kill -9 $$'; exit $?").await;
        let command = client.start(bystander, &request).await.unwrap().command_id;
        let awaited = client.wait(bystander, &command, None).await.unwrap();
        over.cancel();
        let inspected = client.inspect(bystander, &command).await.unwrap();
        [streamed.reason, in_a_shell.reason, awaited.reason, inspected.reason.unwrap()]
    };
    let (hogs, reasons) = tokio::join!(hogs, killed);
    assert!(hogs > 1, "{hogs} deaths in the other sandbox");
    assert_eq!(reasons[0], EndReason::Killed);
    assert_eq!(reasons[2..], [EndReason::Killed; 2]);
    assert_eq!(reasons[1], EndReason::Exited);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sandboxes_can_run_out_of_memory_at_once() {
    let scene = Scene::with(small()).await;
    let second = sandbox_with(&scene.daemon, "chat:second", small()).await;
    let attack = async { tokio::join!(scene.run(HOG), scene.daemon.run(&second, HOG)) };
    let (one, two) = scene.attack("two hogs", attack).await;
    assert_eq!((one.reason, two.reason), (EndReason::Oom, EndReason::Oom));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_long_after_an_oom_of_another_command_is_not_reported_as_oom() {
    let scene = Scene::with(small()).await;
    let client = &scene.daemon.client;
    let server = script("until [ -e end-it ]; do sleep 0.05; done; kill -9 $$");
    let server = client.run(&scene.attacker, &server).await.unwrap();
    assert_eq!(scene.run(HOG).await.reason, EndReason::Oom);
    // Longer than the time in which the engine may report an OOM.
    tokio::time::sleep(sandboxd::model::limits::OOM_REPORT + Duration::from_secs(2)).await;
    scene.daemon.output(&scene.attacker, "touch end-it").await;
    assert_eq!(outcome(server).await.reason, EndReason::Killed);
    scene.end().await;
}

/// Allocates memory in several processes until the kernel has killed them all, after trying to lower its OOM score.
const GREEDY: &str = "
import os
def spare():
    for file in ('/proc/self/oom_score_adj', '/proc/self/oom_adj', '/proc/thread-self/oom_score_adj',
                 f'/proc/{os.getppid()}/oom_score_adj'):
        for score in ('-1000', '0', '500', '999'):
            try:
                with open(file, 'w') as adj: adj.write(score)
                print('spared by', file, flush=True)
            except OSError:
                pass
spare()
for _ in range(5):
    if os.fork() == 0:
        spare()
        break
held = []
while True: held.append(bytearray(1 << 20))
";

/// The same in processes that are each smaller than the agent, so that only the score decides which is killed first.
/// Files in memory, which belong to no process, take up space as well. The processes wait on a pipe and end after a
/// while.
const MANY_SMALL: &str = r#"
for place in /tmp /dev/shm; do head -c 60000000 /dev/zero >$place/fill.$$; done 2>/dev/null
mkfifo hold.$$
exec 3<>hold.$$
for i in $(seq 100); do
  sh -c 'echo 0 >/proc/self/oom_score_adj; x=$(head -c 2000000 /dev/zero | tr "\0" a); read line' <&3 &
done 2>/dev/null
sleep 2
kill $(jobs -p) 2>/dev/null
rm -f /tmp/fill.$$ /dev/shm/fill.$$
exit 137"#;

/// Rounds of the race.
const ROUNDS: usize = 5;

/// Runs hogs while other commands start, and checks that the agent survives. The agent has nearly the commands' OOM
/// score for the time of a start. Returns how the hogs ended.
async fn race(scene: &Scene, hog: &str) -> Vec<Outcome> {
    let client = &scene.daemon.client;
    let host = HostView::of(&scene.attacker).await;
    let mut ended = Vec::new();
    for round in 0..ROUNDS {
        let (over, before) = (CancellationToken::new(), host.oom_kills());
        let hogs = async {
            let hogs = join_all((0..2).map(|_| scene.run(hog))).await;
            over.cancel();
            hogs
        };
        let starts = join_all((0..4).map(async |_| {
            while !over.is_cancelled() {
                // The kernel may kill this one as well.
                if let Ok(records) = client.run(&scene.attacker, &script("true")).await {
                    outcome(records).await;
                }
            }
        }));
        let (hogs, _) = tokio::join!(hogs, starts);
        assert!(host.oom_kills() > before, "round {round}: the memory was sufficient");
        let now = HostView::of(&scene.attacker).await;
        assert_eq!(now.pid(), host.pid(), "round {round}: it is another agent");
        ended.extend(hogs);
    }
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_and_other_commands_survive_hogs_that_lower_their_oom_score() {
    let scene = Scene::with(small()).await;
    let wait = script("until [ -e over ]; do sleep 0.05; done; echo survived");
    let innocent = StartCommand { timeout_ms: Some(300_000), ..wait };
    let innocent = scene.daemon.client.run(&scene.attacker, &innocent).await.unwrap();
    for hog in race(&scene, &python(GREEDY)).await {
        assert_eq!((hog.exit_code, hog.reason), (137, EndReason::Oom), "{hog:?}");
        assert_eq!(hog.text(), "");
    }
    scene.daemon.output(&scene.attacker, "touch over").await;
    let innocent = outcome(innocent).await;
    assert_eq!((innocent.text().as_str(), innocent.reason), ("survived\n", EndReason::Exited));
    scene.end().await;
}

/// No command is larger than another by much, so the kernel may choose any of them, and only the agent is safe.
#[tokio::test(flavor = "multi_thread")]
async fn the_agent_survives_many_hogs_smaller_than_itself() {
    let scene = Scene::with(small()).await;
    race(&scene, MANY_SMALL).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_forked_early_get_the_oom_score_of_commands_too() {
    const COMMANDS: usize = 20;
    // A shell, a child and a grandchild, all started within the first moments of the command.
    const PROCESSES: usize = 3;
    let daemon = Daemon::start().await;
    let sandbox = &daemon.sandbox("chat:1").await;
    let host = HostView::of(sandbox).await;
    let request = script("(sleep 300 & wait) & wait");
    let running = join_all((0..COMMANDS).map(|_| daemon.client.run(sandbox, &request))).await;
    let scores = || {
        let commands = host.processes().into_iter().filter(|pid| *pid != host.pid());
        // A process that has ended in between has no score.
        let score = |pid| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).ok();
        commands.filter_map(score).map(|score| score.trim().to_owned()).collect::<Vec<_>>()
    };
    // Those of waiting shells have it too.
    let processes = COMMANDS * PROCESSES..=COMMANDS * PROCESSES + limits::SHELL_PROCESSES as usize;
    until("every process has the score of commands", || async {
        let scores = scores();
        processes.contains(&scores.len()) && scores.iter().all(|score| score == "1000")
    })
    .await;
    drop(running);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_program_does_not_delay_its_start() {
    const STARTS: u32 = 20;
    let daemon = Daemon::start().await;
    let sandbox = &daemon.sandbox("chat:1").await;
    // The kernel hides a process from its own user if the user may not read its program, so its score cannot be set.
    daemon.output(sandbox, "cp /bin/true shown; cp /bin/true hidden; chmod 111 hidden").await;
    let time = async |program: &str| {
        let request = StartCommand { cmd: Some(format!("./{program}")), ..StartCommand::default() };
        let began = Instant::now();
        assert_eq!(outcome(daemon.client.run(sandbox, &request).await.unwrap()).await.exit_code, 0);
        began.elapsed()
    };
    let (mut shown, mut hidden) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..STARTS {
        shown += time("shown").await;
        hidden += time("hidden").await;
    }
    // The agent retries for 50 ms.
    assert!(hidden < 2 * shown + STARTS * Duration::from_millis(25), "{shown:?} and {hidden:?}");
    daemon.stop().await;
}

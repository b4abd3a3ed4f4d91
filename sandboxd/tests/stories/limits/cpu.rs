//! Processors.

use std::time::Instant;

use sandbox_api::sandbox::Resources;

use crate::support::host_view::HostView;
use crate::support::limits::Scene;
use crate::support::limits::python;

#[tokio::test(flavor = "multi_thread")]
async fn many_threads_get_only_their_share_of_the_processors() {
    let scene = Scene::with(Resources { vcpus: Some(1), ..Resources::default() }).await;
    let burn = "for i in 1 2 3 4; do timeout 3 bash -c 'while :; do :; done' & done; wait";
    let cpu_ms = async || scene.attacker_now().await.usage.unwrap().cpu_ms as f64;
    let attack = async {
        let (before, began) = (cpu_ms().await, Instant::now());
        scene.daemon.output(&scene.attacker, burn).await;
        // CPU usage is read before the wall clock, so that the request's own time does not raise the ratio.
        let used = cpu_ms().await - before;
        used / began.elapsed().as_millis() as f64
    };
    let processors = scene.attack("4 burners on 1 vcpu", attack).await;
    println!("limits | 4 burners on 1 vcpu used {processors:.2} processors");
    // The kernel accounts by slices of its period, so the limit is not exact.
    assert!(processors < 1.25, "{processors:.2} processors");

    let host = HostView::of(&scene.attacker).await;
    assert_eq!(host.milli_cpus(), 1000);
    assert_eq!(scene.attacker_now().await.posture.unwrap().nano_cpus, Some(1_000_000_000));
    let throttled: u64 =
        crate::support::limits::value_of(&host.cgroup("cpu", "cpu.stat", "cpu.stat"), "nr_throttled");
    // On a busy machine it may get less than its share. Then nothing had to be throttled.
    assert!(throttled > 0 || processors < 0.95, "{processors:.2} processors, never throttled");
    scene.end().await;
}

/// Times are only printed, except for the stall bound: they depend on the load of this machine.
#[tokio::test(flavor = "multi_thread")]
async fn a_neighbour_keeps_running_beside_busy_and_dying_processes() {
    let scene = Scene::with(Resources::default()).await;
    let busy = "import os, time
for _ in range(400):
    if os.fork() == 0:
        while True: pass
time.sleep(6)
os.kill(-1, 9)";
    let segfaults = "for i in 1 2 3 4; do (while :; do sh -c 'kill -SEGV $$' 2> /dev/null; done) & done; sleep 6; kill -9 -1";
    let hoppers = "import os, time
for _ in range(40):
    if os.fork() == 0:
        while True:
            try:
                if os.fork(): os._exit(0)
            except OSError: pass
time.sleep(6)
os.kill(-1, 9)";
    for (name, attack) in [
        ("400 busy processes", python(busy)),
        ("segfault loops", segfaults.to_owned()),
        ("fork hoppers", python(hoppers)),
    ] {
        scene.attack(name, scene.run(&attack)).await;
    }
    scene.end().await;
}

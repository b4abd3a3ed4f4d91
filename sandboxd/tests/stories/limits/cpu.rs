//! Processors.

use std::time::Instant;

use sandbox_api::sandbox::Resources;

use super::Scene;
use super::host::HostView;

#[tokio::test(flavor = "multi_thread")]
async fn many_threads_have_no_more_than_their_share_of_the_processors() {
    let scene = Scene::with(Resources { vcpus: Some(1), ..Resources::default() }).await;
    let burn = "for i in 1 2 3 4; do timeout 3 bash -c 'while :; do :; done' & done; wait";
    let cpu_ms = async || scene.attacker_now().await.usage.unwrap().cpu_ms as f64;
    let attack = async {
        let (before, began) = (cpu_ms().await, Instant::now());
        scene.daemon.output(&scene.attacker, burn).await;
        // The wall clock first, so that what is asked for after it is not called processor time of before.
        let used = cpu_ms().await - before;
        used / began.elapsed().as_millis() as f64
    };
    let processors = scene.attack("4 burners on 1 vcpu", attack).await;
    println!("limits | 4 burners on 1 vcpu used {processors:.2} processors");
    // The kernel settles by slices of its period; a processor's worth is not exact.
    assert!(processors < 1.25, "{processors:.2} processors");

    let host = HostView::of(&scene.attacker).await;
    assert_eq!(host.milli_cpus(), 1000);
    assert_eq!(scene.attacker_now().await.posture.unwrap().nano_cpus, Some(1_000_000_000));
    let throttled: u64 = super::told(&host.cgroup("cpu", "cpu.stat", "cpu.stat"), "nr_throttled");
    // A busy machine may give it less than its share, and then nothing had to be held back.
    assert!(throttled > 0 || processors < 0.95, "{processors:.2} processors, never throttled");
    scene.end().await;
}

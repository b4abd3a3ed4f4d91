//! A daemon for one test.

pub(crate) use test_daemon::{
    Collected, Daemon, DaemonProcess, Home, Outcome, SOON, TOKEN, docker, free_port, free_ports,
    left_out_under_gvisor, outcome, script, skip, under_gvisor, until,
};

/// Makes each story a test over both ways to reach an agent.
macro_rules! over_each_transport {
    ($($story:ident),* $(,)?) => {
        mod over_the_socket {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() {
                let daemon = $crate::support::harness::Daemon::start().await;
                super::$story(&daemon).await;
                daemon.stop().await;
            })*
        }
        mod through_the_engine {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() {
                let reason = "the other end of a socket is not told, so the agent cannot know the engine's call";
                if $crate::support::harness::left_out_under_gvisor(reason) {
                    return;
                }
                let home = $crate::support::harness::Home::new().set("SANDBOXD_AGENT_TRANSPORT", "engine");
                let daemon = $crate::support::harness::Daemon::start_in(home).await;
                super::$story(&daemon).await;
                daemon.stop().await;
            })*
        }
    };
}
pub(crate) use over_each_transport;

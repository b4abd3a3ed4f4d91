//! The test daemon, and a macro for stories over both agent transports.

pub(crate) use test_daemon::{
    Collected, Daemon, DaemonProcess, Home, LINK_PORTS, Outcome, SOON, TOKEN, docker, free_port, free_ports,
    outcome, script, skip, skipped_under_gvisor, under_gvisor, until, until_within,
};

/// Turns each story into a test for each agent transport.
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
                let reason = "gVisor does not report the other end of a socket, so the agent cannot verify the engine's call";
                if $crate::support::harness::skipped_under_gvisor(reason) {
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

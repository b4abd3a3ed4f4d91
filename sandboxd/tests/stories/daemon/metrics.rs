//! The daemon's metrics: they count what happens, and a strict parser accepts them.

use sandbox_api::ErrorCode;

use crate::support::harness::{Daemon, script};
use crate::support::http::{Answer, HttpClient};
use crate::support::metrics::Samples;

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_count_requests_and_commands() {
    let daemon = Daemon::start().await;
    let before = Samples::of(&daemon).await;
    let sandbox = daemon.sandbox("chat:metrics").await;
    assert_eq!(daemon.output(&sandbox, "printf 12345; printf 123 >&2").await, "12345");
    let api = HttpClient::of(&daemon);
    assert_eq!(daemon.run(&sandbox, "kill -9 $$").await.exit_code, 137);
    api.get("/nope").await.refused(ErrorCode::NotFound, "an unknown route");
    Answer::to(api.without_token("GET", "/metrics"))
        .await
        .refused(ErrorCode::Unauthenticated, "no token, no numbers");
    daemon.client.start(&sandbox, &script("sleep 0.01")).await.unwrap();
    let after = Samples::of(&daemon).await;

    let grew = |name: &str, labels: &[&str]| after.sum(name, labels) - before.sum(name, labels);
    let commands = r#"route="/v1/sandboxes/{id}/commands""#;
    assert_eq!(grew("sandboxd_requests_total", &[commands, r#"method="POST""#, r#"status="200""#]), 3.0);
    assert_eq!(grew("sandboxd_request_seconds_count", &[commands]), 3.0);
    assert_eq!(grew("sandboxd_requests_total", &[r#"route="-""#, r#"status="404""#]), 1.0);
    assert_eq!(grew("sandboxd_requests_total", &[r#"route="/metrics""#, r#"status="401""#]), 1.0);
    assert_eq!(grew("sandboxd_auth_failures_total", &[]), 1.0);
    assert_eq!(grew("sandboxd_stream_bytes_total", &[r#"stream="stdout""#]), 5.0);
    assert_eq!(grew("sandboxd_stream_bytes_total", &[r#"stream="stderr""#]), 3.0);
    // The last one may also have ended.
    assert!((1.0..=2.0).contains(&grew("sandboxd_command_seconds_count", &[r#"reason="exited""#])));
    assert_eq!(grew("sandboxd_command_seconds_count", &[r#"reason="killed""#]), 1.0);
    assert_eq!(grew("sandboxd_engine_call_seconds_count", &[r#"call="create container""#]), 1.0);
    assert_eq!(grew("sandboxd_sandboxes", &[r#"state="running""#]), 1.0);
    for name in ["sandboxd_resident_memory_bytes", "sandboxd_open_fds", "sandboxd_start_time_seconds"] {
        assert!(after.sum(name, &[]) > 1.0, "{name}");
    }
    assert_eq!(after.sum("sandboxd_build_info", &[concat!("version=\"", env!("CARGO_PKG_VERSION"))]), 1.0);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_input_becomes_a_label() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    for n in 0..20 {
        let (path, method) = (format!("/v1/sandboxes/sbx_{n:016}:word{n}"), format!("BREW{n}"));
        let asked = [
            api.with_token("POST", &path),
            api.with_token(&method, &path),
            api.with_token("GET", &format!("/stranger/{n}")),
            api.without_token(&method, &format!("/stranger?{n}")),
        ];
        for ask in asked {
            assert!(Answer::to(ask).await.status >= 400);
        }
    }
    let samples = Samples::of(&daemon).await;
    let strange =
        samples.names().find(|sample| ["word", "BREW", "stranger"].iter().any(|word| sample.contains(word)));
    assert_eq!(strange, None);
    assert_eq!(samples.sum("sandboxd_requests_total", &[r#"method="other""#]), 40.0);
    daemon.stop().await;
}

//! The daemon's numbers: that they move with what happens, and that a strict reader understands them.

use std::collections::BTreeMap;

use sandbox_api::ErrorCode;

use crate::harness::{Daemon, script};
use crate::http::{Answer, Asker};

const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Samples by name and labels as they were written.
pub(crate) struct Samples(BTreeMap<String, f64>);

impl Samples {
    pub(crate) async fn of(daemon: &Daemon) -> Self {
        let answer = Asker::of(daemon).get("/metrics").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, TYPE));
        read(&String::from_utf8(answer.body).unwrap())
    }

    /// The sum of the samples of this name whose labels include these.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let fits = |sample: &str| {
            let (found, rest) = sample.split_once('{').unwrap_or((sample, ""));
            found == name && labels.iter().all(|label| rest.contains(label))
        };
        self.0.iter().filter(|(sample, _)| fits(sample)).map(|(_, value)| value).sum()
    }
}

/// Reads the OpenMetrics text format (version 1.0.0), and is stricter than it where a mistake would hide.
fn read(text: &str) -> Samples {
    let body = text.strip_suffix("# EOF\n").expect("no end");
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (kind, rest) = comment.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !value.is_empty() && ["HELP", "TYPE", "UNIT"].contains(&kind), "{line}");
            if kind == "TYPE" {
                assert!(types.insert(name, value).is_none(), "told twice: {line}");
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        assert!(belongs(name, &types), "of no known kind: {line}");
        assert!(is_name(name), "{line}");
        check_labels(&sample[name.len()..]);
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert!(samples.insert(sample.to_owned(), value).is_none(), "told twice: {line}");
    }
    Samples(samples)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_')
}

/// Each kind of metric has its own endings, and no other sample has them.
fn belongs(name: &str, types: &BTreeMap<&str, &str>) -> bool {
    let endings = [
        ("counter", &["_total"][..]),
        ("gauge", &[""]),
        ("info", &["_info"]),
        ("histogram", &["_bucket", "_sum", "_count"]),
    ];
    endings.into_iter().any(|(kind, endings)| {
        let families = endings.iter().filter_map(|ending| name.strip_suffix(ending));
        families.into_iter().any(|family| types.get(family) == Some(&kind))
    })
}

fn check_labels(labels: &str) {
    let Some(inner) = labels.strip_prefix('{') else { return assert_eq!(labels, "") };
    let inner = inner.strip_suffix('}').expect("labels without an end");
    for pair in inner.split("\",") {
        let (name, value) = pair.split_once("=\"").expect("a label without a value");
        let value = value.trim_end_matches('"');
        assert!(is_name(name) && !value.contains(['"', '\\', '\n']), "{labels}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_numbers_follow_what_happens() {
    let daemon = Daemon::start().await;
    let before = Samples::of(&daemon).await;
    let sandbox = daemon.sandbox("chat:metrics").await;
    assert_eq!(daemon.output(&sandbox, "printf 12345; printf 123 >&2").await, "12345");
    let asker = Asker::of(&daemon);
    assert_eq!(daemon.run(&sandbox, "kill -9 $$").await.exit_code, 137);
    asker.get("/nope").await.refused(ErrorCode::NotFound, "an unknown route");
    Answer::to(asker.without_token("GET", "/metrics"))
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
    // The last one may have ended, too.
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
async fn nothing_a_caller_sends_becomes_a_label() {
    let daemon = Daemon::start().await;
    let asker = Asker::of(&daemon);
    for n in 0..20 {
        let (path, method) = (format!("/v1/sandboxes/sbx_{n:016}:word{n}"), format!("BREW{n}"));
        let asked = [
            asker.with_token("POST", &path),
            asker.with_token(&method, &path),
            asker.with_token("GET", &format!("/stranger/{n}")),
            asker.without_token(&method, &format!("/stranger?{n}")),
        ];
        for ask in asked {
            assert!(Answer::to(ask).await.status >= 400);
        }
    }
    let samples = Samples::of(&daemon).await;
    let strange =
        samples.0.keys().find(|sample| ["word", "BREW", "stranger"].iter().any(|word| sample.contains(word)));
    assert_eq!(strange, None);
    assert_eq!(samples.sum("sandboxd_requests_total", &[r#"method="other""#]), 40.0);
    daemon.stop().await;
}

//! The daemon's metrics, read by a strict parser.

use std::collections::BTreeMap;

use crate::support::harness::Daemon;
use crate::support::http::HttpClient;

const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Samples by name and labels, as written.
pub(crate) struct Samples(BTreeMap<String, f64>);

impl Samples {
    pub(crate) async fn of(daemon: &Daemon) -> Self {
        Self::from(&HttpClient::of(daemon)).await
    }

    pub(crate) async fn from(client: &HttpClient) -> Self {
        let answer = client.get("/metrics").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, TYPE));
        read(&String::from_utf8(answer.body).unwrap())
    }

    /// The samples' names with their labels.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The sum of all samples with this name whose labels include these.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let fits = |sample: &str| {
            let (found, rest) = sample.split_once('{').unwrap_or((sample, ""));
            found == name && labels.iter().all(|label| rest.contains(label))
        };
        self.0.iter().filter(|(sample, _)| fits(sample)).map(|(_, value)| value).sum()
    }
}

/// Parses the OpenMetrics text format (version 1.0.0), more strictly than required where errors could hide.
fn read(text: &str) -> Samples {
    let body = text.strip_suffix("# EOF\n").expect("no end marker");
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (kind, rest) = comment.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !value.is_empty() && ["HELP", "TYPE", "UNIT"].contains(&kind), "{line}");
            if kind == "TYPE" {
                assert!(types.insert(name, value).is_none(), "repeated: {line}");
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        assert!(belongs(name, &types), "no known type: {line}");
        assert!(is_name(name), "{line}");
        check_labels(&sample[name.len()..]);
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert!(samples.insert(sample.to_owned(), value).is_none(), "repeated: {line}");
    }
    Samples(samples)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_')
}

/// Each type of metric has its own suffixes, which no other type may use.
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
    let inner = inner.strip_suffix('}').expect("labels without a closing brace");
    for pair in inner.split("\",") {
        let (name, value) = pair.split_once("=\"").expect("a label without a value");
        let value = value.trim_end_matches('"');
        assert!(is_name(name) && !value.contains(['"', '\\', '\n']), "{labels}");
    }
}

//! Docker's protocol for volume plugins (docs.docker.com/engine/extend/plugins_volume): one POST for each operation,
//! with JSON in both directions. An empty `Err` means success.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::definition::VolumeName;
use crate::fault::{Fault, one_line};
use crate::limits;
use crate::volumes::{Listed, Volumes};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Create {
    name: String,
    #[serde(default)]
    opts: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Named {
    name: String,
}

/// A mount or unmount. `ID` names the container.
#[derive(Debug, Deserialize)]
struct Use {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "ID")]
    id: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Shown {
    name: String,
    mountpoint: String,
}

/// The routes of the plugin.
pub(crate) fn router(volumes: Arc<Volumes>) -> Router {
    let mut router = Router::new()
        .route("/Plugin.Activate", post(|| async { answer(&json!({ "Implements": ["VolumeDriver"] })) }))
        .route(
            "/VolumeDriver.Capabilities",
            post(|| async { answer(&json!({ "Capabilities": { "Scope": "local" } })) }),
        );
    let operations: [(&str, Operation); 7] = [
        ("/VolumeDriver.Create", create),
        ("/VolumeDriver.Remove", remove),
        ("/VolumeDriver.Mount", mount),
        ("/VolumeDriver.Unmount", unmount),
        ("/VolumeDriver.Path", path),
        ("/VolumeDriver.Get", get),
        ("/VolumeDriver.List", list),
    ];
    for (route, operation) in operations {
        let volumes = Arc::clone(&volumes);
        router = router.route(route, post(move |body: Bytes| run(volumes, operation, body)));
    }
    router.layer(DefaultBodyLimit::max(limits::REQUEST_BYTES))
}

type Operation = fn(&Volumes, &[u8]) -> Result<Value, Fault>;

/// Runs an operation on a thread of its own, because mounts block.
async fn run(volumes: Arc<Volumes>, operation: Operation, body: Bytes) -> Response {
    match tokio::task::spawn_blocking(move || operation(&volumes, &body)).await {
        Ok(Ok(value)) => answer(&value),
        Ok(Err(fault)) => failure(&one_line(&fault)),
        Err(_) => failure("the operation panicked"),
    }
}

fn create(volumes: &Volumes, body: &[u8]) -> Result<Value, Fault> {
    let Create { name, opts } = decode(body)?;
    volumes.create(&VolumeName::parse(&name)?, &opts.unwrap_or_default())?;
    Ok(done())
}

fn remove(volumes: &Volumes, body: &[u8]) -> Result<Value, Fault> {
    volumes.remove(&named(body)?)?;
    Ok(done())
}

fn mount(volumes: &Volumes, body: &[u8]) -> Result<Value, Fault> {
    let (name, id) = used(body)?;
    let mountpoint = volumes.mount(&name, id)?;
    Ok(json!({ "Mountpoint": mountpoint, "Err": "" }))
}

fn unmount(volumes: &Volumes, body: &[u8]) -> Result<Value, Fault> {
    let (name, id) = used(body)?;
    volumes.unmount(&name, &id)?;
    Ok(done())
}

fn path(volumes: &Volumes, body: &[u8]) -> Result<Value, Fault> {
    let mountpoint = volumes.get(&named(body)?)?.unwrap_or_default();
    Ok(json!({ "Mountpoint": mountpoint, "Err": "" }))
}

fn get(volumes: &Volumes, body: &[u8]) -> Result<Value, Fault> {
    let name = named(body)?;
    let mountpoint = volumes.get(&name)?;
    Ok(json!({ "Volume": shown(Listed { name, mountpoint }), "Err": "" }))
}

fn list(volumes: &Volumes, _body: &[u8]) -> Result<Value, Fault> {
    let listed: Vec<Shown> = volumes.list()?.into_iter().map(shown).collect();
    Ok(json!({ "Volumes": listed, "Err": "" }))
}

fn shown(volume: Listed) -> Shown {
    let mountpoint = volume.mountpoint.unwrap_or_default();
    Shown { name: volume.name.as_str().to_owned(), mountpoint: mountpoint.to_string_lossy().into_owned() }
}

fn named(body: &[u8]) -> Result<VolumeName, Fault> {
    VolumeName::parse(&decode::<Named>(body)?.name)
}

fn used(body: &[u8]) -> Result<(VolumeName, String), Fault> {
    let Use { name, id } = decode(body)?;
    if !(1..=limits::NAME_BYTES).contains(&id.len()) {
        return Err(Fault::Name { field: "the mount's id", max: limits::NAME_BYTES, allowed: "of any kind" });
    }
    Ok((VolumeName::parse(&name)?, id))
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(body).map_err(Fault::Request)
}

fn done() -> Value {
    json!({ "Err": "" })
}

fn answer(value: &Value) -> Response {
    respond(StatusCode::OK, value)
}

fn failure(text: &str) -> Response {
    respond(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "Err": text }))
}

fn respond(status: StatusCode, value: &Value) -> Response {
    let kind = "application/vnd.docker.plugins.v1.2+json";
    (status, [(header::CONTENT_TYPE, kind)], value.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_the_engine_are_decoded() {
        let Create { name, opts } = decode(br#"{"Name":"v","Opts":{"disk":"d"}}"#).unwrap();
        assert_eq!((name.as_str(), opts.unwrap()["disk"].as_str()), ("v", "d"));
        assert!(decode::<Create>(br#"{"Name":"v","Opts":null}"#).unwrap().opts.is_none());
        assert_eq!(used(br#"{"Name":"v","ID":"c"}"#).unwrap().1, "c");
        for body in [&b""[..], b"{}", b"[]", br#"{"Name":1}"#, br#"{"Name":"../x"}"#, b"\xff"] {
            assert!(named(body).is_err(), "{body:?}");
        }
        assert!(used(br#"{"Name":"v","ID":""}"#).is_err());
    }

    #[test]
    fn an_error_is_one_line_with_its_cause() {
        let fault = named(b"{\n").unwrap_err();
        let text = one_line(&fault);
        assert!(text.starts_with("the request is not valid: ") && !text.contains('\n'), "{text}");
    }
}

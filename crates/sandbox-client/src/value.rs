//! Values that are kept with a sandbox, by key.

use bytes::Bytes;
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sandbox_api::value::ValueList;
use sandbox_api::{Done, SandboxId};

use crate::deadlines::{ACT, LOOK, TRANSFER};
use crate::request::{broken, json, send};
use crate::{Body, Client, Error};

impl Client {
    /// Returns a page of the keys that begin with `prefix`, in the order of their bytes. Does not wake the sandbox.
    pub async fn values(
        &self,
        sandbox: &SandboxId,
        prefix: &str,
        cursor: Option<&str>,
    ) -> Result<ValueList, Error> {
        let query: Vec<_> = [("prefix", Some(prefix)), ("cursor", cursor)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        let path = format!("/v1/sandboxes/{sandbox}/kv");
        json(self.request(Method::GET, &path).query(&query), LOOK).await
    }

    /// Returns a value. Does not wake the sandbox.
    pub async fn get_value(&self, sandbox: &SandboxId, key: &str) -> Result<Bytes, Error> {
        let response = send(self.request(Method::GET, &path_of(sandbox, key)), TRANSFER.into()).await?;
        response.into_body().collect().await.map_err(broken)
    }

    /// Keeps a value of up to 1 MiB. It replaces the one with the same key. Safe to repeat.
    pub async fn put_value(
        &self,
        sandbox: &SandboxId,
        key: &str,
        value: impl Into<Bytes>,
    ) -> Result<Done, Error> {
        let request = self.request(Method::PUT, &path_of(sandbox, key));
        json(request.body(Body::from(value.into())), TRANSFER).await
    }

    /// Deletes a value. Succeeds if there is none.
    pub async fn delete_value(&self, sandbox: &SandboxId, key: &str) -> Result<Done, Error> {
        json(self.request(Method::DELETE, &path_of(sandbox, key)), ACT).await
    }
}

fn path_of(sandbox: &SandboxId, key: &str) -> String {
    format!("/v1/sandboxes/{sandbox}/kv/{}", utf8_percent_encode(key, NON_ALPHANUMERIC))
}

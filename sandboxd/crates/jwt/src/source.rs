//! Reads a key set from its file or URL.

use std::path::Path;

use futures::StreamExt;
use reqwest::redirect::Policy;
use sandboxd_model::jwt::JwtKeys;
use sandboxd_model::limits;
use thiserror::Error;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

/// Why a key set cannot be used.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("the file cannot be read")]
    File(#[source] std::io::Error),
    /// The server cannot be reached, or the response broke off.
    #[error("the request failed")]
    Request(#[source] reqwest::Error),
    /// The server's response is an error, or leads elsewhere.
    #[error("the response has the status {0}")]
    Status(http::StatusCode),
    /// It is longer than [`limits::MAX_JWKS_BYTES`].
    #[error("it has more than {} bytes", limits::MAX_JWKS_BYTES)]
    TooLarge,
    /// None of its keys can check a signature with an algorithm of the settings.
    #[error("it has no key for the algorithms of SANDBOXD_JWT_ALGORITHMS")]
    NoKey,
    /// It is not JSON, or has no `keys`.
    #[error("it is not a JSON Web Key Set")]
    NoKeySet,
}

/// Reads the text of a key set.
pub(crate) async fn read(keys: &JwtKeys) -> Result<Vec<u8>, SourceError> {
    match keys {
        JwtKeys::File(path) => read_file(path).await,
        JwtKeys::Url(url) => request(url).await,
        // It is in the settings.
        JwtKeys::Secret(_) => Err(SourceError::NoKeySet),
    }
}

async fn read_file(path: &Path) -> Result<Vec<u8>, SourceError> {
    let file = File::open(path).await.map_err(SourceError::File)?;
    let mut text = Vec::new();
    let max = limits::MAX_JWKS_BYTES as u64;
    file.take(max + 1).read_to_end(&mut text).await.map_err(SourceError::File)?;
    if text.len() as u64 > max { Err(SourceError::TooLarge) } else { Ok(text) }
}

/// A redirect is an error: the operator has named the issuer's address, and no other one is trusted.
async fn request(url: &str) -> Result<Vec<u8>, SourceError> {
    let client = reqwest::Client::builder().redirect(Policy::none()).timeout(limits::JWKS_FETCH).build();
    let response =
        client.map_err(SourceError::Request)?.get(url).send().await.map_err(SourceError::Request)?;
    if response.status() != http::StatusCode::OK {
        return Err(SourceError::Status(response.status()));
    }
    let mut parts = response.bytes_stream();
    let mut text = Vec::new();
    while let Some(part) = parts.next().await {
        text.extend_from_slice(&part.map_err(SourceError::Request)?);
        if text.len() > limits::MAX_JWKS_BYTES {
            return Err(SourceError::TooLarge);
        }
    }
    Ok(text)
}

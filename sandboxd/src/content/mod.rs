//! Content of a file as an HTTP response, for the API and for download links.
//!
//! Conditions and ranges follow HTTP (RFC 9110 sections 13 and 14). The content comes from a sandbox, so the headers
//! make a browser download it instead of rendering it.

pub(crate) mod precondition;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_MATCH, LAST_MODIFIED, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use sandbox_api::{FILE_SIZE_HEADER, SandboxId};

use self::precondition::{is_not_modified, is_range_of, quoted};
use crate::model::files::{FileHeader, FilePath};
use crate::model::{FieldError, FileRefusal, Refusal};
use crate::service::{Authorized, Error, FileStream, Files};

/// Response with a file's content.
pub(crate) struct Content {
    /// 200, 206 or 304.
    pub(crate) status: StatusCode,
    /// Headers of the response.
    pub(crate) headers: HeaderMap,
    /// Body of the response. `None` if it is empty.
    pub(crate) bytes: Option<FileStream<Bytes>>,
}

/// Responds to a request for a file with these headers.
pub(crate) async fn respond(
    files: &Files,
    id: &Authorized<SandboxId>,
    path: FilePath,
    request: &HeaderMap,
) -> Result<Content, Error> {
    let Opened { header, bytes, is_part } = open(files, id, path.clone(), request).await?;
    let etag = header.info.etag.as_deref();
    if !precondition::is_match(request, etag) {
        return Err(Refusal::from(FileRefusal::ConditionFailed {
            path: String::from_utf8_lossy(&path.0).into_owned(),
        })
        .into());
    }
    if is_not_modified(request, etag) {
        let headers = headers_of(&header, false);
        return Ok(Content { status: StatusCode::NOT_MODIFIED, headers, bytes: None });
    }
    let status = if is_part { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    Ok(Content { status, headers: headers_of(&header, is_part), bytes: Some(bytes) })
}

/// Responds with a whole file, without the values of secret variables. It has no etag, because that would be the one of other
/// content, so ranges and conditions do not apply. If there are values, the length is not known, and the size of the file is
/// in `x-file-size`.
pub(crate) async fn respond_hidden(
    files: &Files,
    id: &Authorized<SandboxId>,
    path: FilePath,
    request: &HeaderMap,
) -> Result<Content, Error> {
    if request.contains_key(IF_MATCH) {
        return Err(FieldError::new(IF_MATCH.as_str(), "is not supported with `hideSecrets`").into());
    }
    let (header, bytes, is_changed) = files.read_hidden(id, path).await?;
    let mut headers = headers_of(&header, false);
    headers.remove(ETAG);
    headers.remove(ACCEPT_RANGES);
    if is_changed {
        headers.remove(CONTENT_LENGTH);
        headers.insert(FILE_SIZE_HEADER, header.info.size_bytes.into());
    }
    Ok(Content { status: StatusCode::OK, headers, bytes: Some(bytes) })
}

/// An open file and the bytes to send.
struct Opened {
    header: FileHeader,
    bytes: FileStream<Bytes>,
    /// Whether the bytes are the requested range instead of the whole file.
    is_part: bool,
}

/// Opens the file, at the range if that applies. Conditions are checked against the open file, in the order of RFC 9110
/// section 13.2.2. They are whether the client's copy is current, whether the range is of this file, and whether the
/// range contains a byte.
async fn open(
    files: &Files,
    id: &Authorized<SandboxId>,
    path: FilePath,
    headers: &HeaderMap,
) -> Result<Opened, Error> {
    if let Some(range) = precondition::range(headers) {
        match files.read(id, path.clone(), Some(range)).await {
            Ok((header, bytes)) if is_range_of(headers, header.info.etag.as_deref()) => {
                return Ok(Opened { header, bytes, is_part: true });
            }
            // The range belongs to another version of the file, so the whole file is sent.
            Ok(_) | Err(Error::Refused(Refusal::File(FileRefusal::RangeEmpty { .. }))) => {}
            Err(error) => return Err(error),
        }
    }
    let (header, bytes) = files.read(id, path, None).await?;
    let etag = header.info.etag.as_deref();
    let size_bytes = header.info.size_bytes;
    let range = precondition::range(headers).filter(|range| range.is_empty_in(size_bytes));
    let is_wanted = precondition::is_match(headers, etag) && !is_not_modified(headers, etag);
    if range.is_some() && is_wanted && is_range_of(headers, etag) {
        return Err(Refusal::from(FileRefusal::RangeEmpty { size_bytes }).into());
    }
    Ok(Opened { header, bytes, is_part: false })
}

fn headers_of(header: &FileHeader, is_part: bool) -> HeaderMap {
    let info = &header.info;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_LENGTH, header.length.into());
    if let Ok(modified) = HeaderValue::try_from(http_date(info.modified_at_ns)) {
        headers.insert(LAST_MODIFIED, modified);
    }
    if let Some(etag) = info.etag.as_deref().and_then(quoted) {
        headers.insert(ETAG, etag);
    }
    if is_part && header.length > 0 {
        let last = (header.offset + header.length).saturating_sub(1);
        let range = format!("bytes {}-{last}/{}", header.offset, info.size_bytes);
        headers.extend(HeaderValue::try_from(range).ok().map(|range| (CONTENT_RANGE, range)));
    }
    headers
}

/// Time in HTTP format (RFC 9110 section 5.6.7).
fn http_date(ns: i64) -> String {
    let time = Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
    DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_in_http_format() {
        assert_eq!(http_date(784_111_777 * 1_000_000_000), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}

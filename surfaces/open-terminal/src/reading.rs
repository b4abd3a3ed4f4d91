//! The content of a file for the model: `read_file`.

use axum::extract::State;
use futures::StreamExt;
use http::StatusCode;
use sandbox_client::{Error as ClientError, FileContent};
use serde_json::json;

use crate::access::Chat;
use crate::content::{kind_of, open, open_without_secrets, shown};
use crate::discovery::ok;
use crate::failure::Failure;
use crate::params::Params;
use crate::paths;
use crate::server::{Answer, Server};

/// How much of a file is read to find its lines.
const MAX_SCAN_BYTES: usize = 64 * 1024 * 1024;

/// Maximum size of the text in a response.
const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// Maximum size of an image.
const MAX_IMAGE_BYTES: u64 = 16 * 1024 * 1024;

/// Lines of a file, counted from 1, inclusive.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: u64,
    last: u64,
}

/// Why a file is not returned as text.
enum NoText {
    Client(ClientError),
    /// It is not UTF-8.
    Binary,
    /// The lines are too long together.
    TextTooLong,
    /// The file is too large to be read to its end.
    FileTooLong,
}

pub(crate) async fn read(State(server): State<Server>, chat: Chat, params: Params) -> Answer {
    let path = paths::readable(params.required("path")?, &server.cwds.of(&chat))?;
    let range = Range {
        first: params.number("start_line", 1..=u64::MAX)?.unwrap_or(1),
        last: params.number("end_line", 1..=u64::MAX)?.unwrap_or(u64::MAX),
    };
    match text_of(open_without_secrets(&chat, &path).await?, range).await {
        Ok((content, total_lines)) => {
            Ok(ok(&json!({ "path": path, "total_lines": total_lines, "content": content })))
        }
        Err(NoText::Binary) => image(&path, open(&chat, &path).await?),
        Err(NoText::TextTooLong) => Err(Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format_args!("the lines have more than {MAX_TEXT_BYTES} bytes: set start_line and end_line"),
        )),
        Err(NoText::FileTooLong) => Err(Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format_args!(
                "the file has more than {MAX_SCAN_BYTES} bytes: use run_command, for example with sed -n"
            ),
        )),
        Err(NoText::Client(error)) => Err(error.into()),
    }
}

/// Reads the lines of the range, and the number of all lines.
async fn text_of(mut content: FileContent, range: Range) -> Result<(String, u64), NoText> {
    let (mut text, mut line, mut read) = (Vec::new(), 1_u64, 0_usize);
    // Bytes of a character at the end of the last piece.
    let mut utf8 = Utf8::default();
    let mut is_at_start = true;
    while let Some(piece) = content.next().await {
        let piece = piece.map_err(NoText::Client)?;
        read += piece.len();
        if read > MAX_SCAN_BYTES {
            return Err(NoText::FileTooLong);
        }
        if piece.contains(&0) || !utf8.continues(&piece) {
            return Err(NoText::Binary);
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if (range.first..=range.last).contains(&line) {
                text.extend_from_slice(part);
                if text.len() > MAX_TEXT_BYTES {
                    return Err(NoText::TextTooLong);
                }
            }
            is_at_start = part.ends_with(b"\n");
            line += u64::from(is_at_start);
        }
    }
    let text = String::from_utf8(text).map_err(|_| NoText::Binary)?;
    Ok((text, if is_at_start { line - 1 } else { line }))
}

/// Checks that pieces are UTF-8 together.
#[derive(Default)]
struct Utf8 {
    pending: Vec<u8>,
}

impl Utf8 {
    fn continues(&mut self, piece: &[u8]) -> bool {
        let mut piece = piece;
        while !self.pending.is_empty() && !piece.is_empty() {
            self.pending.push(piece[0]);
            piece = &piece[1..];
            match std::str::from_utf8(&self.pending) {
                Ok(_) => self.pending.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return false,
            }
        }
        match std::str::from_utf8(piece) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                self.pending.extend_from_slice(&piece[error.valid_up_to()..]);
                true
            }
            Err(_) => false,
        }
    }
}

/// The bytes of an image, which are passed on as they arrive. Other files that are not text are of no use to a model.
fn image(path: &str, content: FileContent) -> Answer {
    let kind = kind_of(path);
    if !kind.as_bytes().starts_with(b"image/") {
        let size = content.total_bytes().unwrap_or_default();
        let kind = kind.to_str().unwrap_or_default();
        let detail = format!("Unsupported binary file type: {kind} ({size} bytes)");
        return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    if content.length().is_none_or(|length| length > MAX_IMAGE_BYTES) {
        let detail = format!("the image has more than {MAX_IMAGE_BYTES} bytes");
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    Ok(shown(kind, content))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::response::IntoResponse;
    use futures::future::BoxFuture;
    use futures::{FutureExt, stream};
    use http::header::CONTENT_LENGTH;
    use http::{Request, Response};
    use sandbox_client::{Body, BoxError, Client, Connection, Transport, TransportError};

    use super::*;

    /// A daemon whose files have this length, and whose content never arrives.
    #[derive(Debug)]
    struct Stalled(u64);

    impl Transport for Stalled {
        fn send(&self, _: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
            let content = Body::stream(stream::pending::<Result<bytes::Bytes, BoxError>>());
            let response = Response::builder().header(CONTENT_LENGTH, self.0).body(content).unwrap();
            async { Ok(response) }.boxed()
        }

        fn websocket_base(&self) -> String {
            "ws://localhost".into()
        }

        fn connect(&self) -> BoxFuture<'static, Result<Box<dyn Connection>, TransportError>> {
            async { Err(TransportError::connecting("no connections here")) }.boxed()
        }
    }

    #[tokio::test]
    async fn an_image_is_not_read_into_memory() {
        for (length, path, status) in [
            (MAX_IMAGE_BYTES, "a.png", StatusCode::OK),
            (MAX_IMAGE_BYTES + 1, "a.png", StatusCode::PAYLOAD_TOO_LARGE),
            (1, "a.bin", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ] {
            let client = Client::with_transport(Arc::new(Stalled(length)), "token");
            let sandbox = "sbx_0123456789abcdef".parse().unwrap();
            let content = client.get_file(&sandbox, path, None).await.unwrap();
            let response = image(path, content).into_response();
            assert_eq!(response.status(), status, "{path}");
            assert!(status != StatusCode::OK || response.headers()[CONTENT_LENGTH] == length.to_string());
        }
    }

    #[test]
    fn characters_may_span_pieces() {
        let bytes = "a€😀".as_bytes();
        for cut in 0..bytes.len() {
            let mut utf8 = Utf8::default();
            assert!(utf8.continues(&bytes[..cut]) && utf8.continues(&bytes[cut..]), "{cut}");
            assert!(utf8.pending.is_empty());
        }
        let mut utf8 = Utf8::default();
        assert!(utf8.continues(&bytes[..2]) && !utf8.continues(b"x"));
    }
}

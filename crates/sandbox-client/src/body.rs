//! Content of requests and responses.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, TryStreamExt};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Content of a request or a response: one piece of known length, or a stream of pieces.
pub struct Body(Content);

enum Content {
    Whole(Bytes),
    Pieces(UnsyncBoxBody<Bytes, BoxError>),
}

impl Body {
    /// No content.
    pub fn empty() -> Self {
        Self::from(Bytes::new())
    }

    /// Takes over another library's body.
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Content::Pieces(body.map_err(Into::into).boxed_unsync()))
    }

    /// Content of a stream. If the stream fails, so does the request.
    pub fn stream<E: Into<BoxError> + 'static>(
        pieces: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Self {
        Self(Content::Pieces(StreamBody::new(pieces.map_ok(Frame::data).map_err(Into::into)).boxed_unsync()))
    }

    /// The content, if it is one piece. Otherwise returns the body unchanged.
    pub fn into_whole(self) -> Result<Bytes, Self> {
        match self.0 {
            Content::Whole(bytes) => Ok(bytes),
            pieces @ Content::Pieces(_) => Err(Self(pieces)),
        }
    }

    /// The content piece by piece. Trailers are dropped.
    pub fn into_pieces(self) -> impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static {
        BodyStream::new(self).filter_map(async |frame| frame.map(|frame| frame.into_data().ok()).transpose())
    }

    pub(crate) async fn collect(self) -> Result<Bytes, BoxError> {
        let mut pieces = std::pin::pin!(self.into_pieces());
        let mut content = BytesMut::from(pieces.try_next().await?.unwrap_or_default());
        while let Some(piece) = pieces.try_next().await? {
            content.extend_from_slice(&piece);
        }
        Ok(content.freeze())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Pieces(pieces) => Pin::new(pieces).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Pieces(pieces) => pieces.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Pieces(pieces) => pieces.size_hint(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Content::Whole(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Content::Pieces(_) => f.write_str("Body(pieces)"),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Content::Whole(bytes))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::from(Bytes::from(text))
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::from(Bytes::from_static(text.as_bytes()))
    }
}

impl From<&'static [u8]> for Body {
    fn from(bytes: &'static [u8]) -> Self {
        Self::from(Bytes::from_static(bytes))
    }
}

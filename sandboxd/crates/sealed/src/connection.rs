//! Connections to the server, which may send more than was requested.
//!
//! The library reads lists and errors into memory as a whole, and reserves as much memory as the server announces. So every
//! body ends after [`MAX_BODY_BYTES`], and announces no more.

use async_trait::async_trait;
use http_body_util::{BodyExt, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};

use crate::format::MAX_CONTENT_BYTES;

/// Maximum size of a response's body in bytes: more than the largest object has, and than a list of 1000 objects.
const MAX_BODY_BYTES: usize = 2 * MAX_CONTENT_BYTES;

/// Connects like the library does, and bounds the bodies.
#[derive(Debug, Default)]
pub(crate) struct BoundedConnector(ReqwestConnector);

impl HttpConnector for BoundedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(BoundedClient(self.0.connect(options)?)))
    }
}

#[derive(Debug)]
struct BoundedClient(HttpClient);

#[async_trait]
impl HttpService for BoundedClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        Ok(self.0.execute(request).await?.map(bounded))
    }
}

fn bounded(body: HttpResponseBody) -> HttpResponseBody {
    let bounded = Limited::new(body, MAX_BODY_BYTES).map_err(|error| match error.downcast::<HttpError>() {
        // The library decides by its kind whether it tries again.
        Ok(error) => *error,
        Err(too_long) => HttpError::new_boxed(HttpErrorKind::Decode, too_long),
    });
    HttpResponseBody::new(bounded)
}

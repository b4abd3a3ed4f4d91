//! Connections to ports of a sandbox.

use http::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sandbox_api::error::ErrorBody;
use sandbox_api::{SandboxId, TOKEN_HEADER};
use tokio::time::timeout;

use crate::deadlines::ACT;
use crate::request::retry_after;
use crate::transport::TransportError;
use crate::{Body, BoxError, Client, Connection, Error};

/// Protocol of the connection after the response.
const TCP: HeaderValue = HeaderValue::from_static("tcp");

impl Client {
    /// Connects to a port on the sandbox's loopback interface, and wakes the sandbox if it is parked. The connection
    /// carries bytes both ways. Fails with `wrong_state` if nothing listens there. Each call opens a connection.
    pub async fn connect_port(&self, sandbox: &SandboxId, port: u16) -> Result<Box<dyn Connection>, Error> {
        timeout(ACT, self.tunnel(sandbox, port)).await.unwrap_or(Err(Error::Deadline { after: ACT }))
    }

    async fn tunnel(&self, sandbox: &SandboxId, port: u16) -> Result<Box<dyn Connection>, Error> {
        let request = self.request_for_tunnel(sandbox, port).map_err(Error::Invalid)?;
        let connection = self.transport.connect().await.map_err(Error::Broken)?;
        let (mut sender, driver) = http1::handshake(TokioIo::new(connection)).await.map_err(broken)?;
        // It ends with the connection, or when the sender is dropped.
        tokio::spawn(driver.with_upgrades());
        let response = sender.send_request(request).await.map_err(broken)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(response).await);
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(broken)?;
        Ok(Box::new(TokioIo::new(upgraded)))
    }

    fn request_for_tunnel(&self, sandbox: &SandboxId, port: u16) -> Result<Request<Body>, BoxError> {
        let base: Uri = self.transport.websocket_base().parse()?;
        let host = base.authority().ok_or("the address has no host")?.as_str();
        let request = Request::builder()
            .method(Method::GET)
            .uri(format!("/v1/sandboxes/{sandbox}/ports/{port}/tunnel"))
            .header(HOST, host)
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, TCP)
            .header(TOKEN_HEADER, &self.token);
        Ok(request.body(Body::empty())?)
    }
}

fn broken(error: hyper::Error) -> Error {
    Error::Broken(TransportError::broken(error))
}

async fn refused(response: Response<Incoming>) -> Error {
    let (status, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
    let body = match Body::wrap(response.into_body()).collect().await {
        Ok(body) => body,
        Err(error) => return Error::Broken(TransportError::broken(error)),
    };
    match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(body) => Error::Refused { status, body: Box::new(body), retry_after },
        Err(_) => Error::Foreign { status },
    }
}

//! The client of the engine's API.

use bollard::{API_DEFAULT_VERSION, Docker};

use super::{Error, unix_transport};
use sandboxd_model::{EngineAddress, limits};

/// Prepares a client. Sends nothing yet.
pub(super) fn open(address: &EngineAddress) -> Result<Docker, Error> {
    let seconds = limits::ENGINE_CALL.as_secs();
    let docker = match address {
        EngineAddress::Unix(path) => {
            let path = path.clone();
            let transport = move |request| unix_transport::send(path.clone(), request);
            let origin = Some(unix_transport::ORIGIN);
            Docker::connect_with_custom_transport(transport, origin, seconds, API_DEFAULT_VERSION)
        }
        EngineAddress::Tcp(address) => {
            Docker::connect_with_http(&format!("tcp://{address}"), seconds, API_DEFAULT_VERSION)
        }
    };
    docker.map_err(|source| Error::unreachable(address, source))
}

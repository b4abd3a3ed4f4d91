//! SOCKS5 without authentication, only CONNECT (RFC 1928).
//!
//! Names are passed on unresolved, because policy is enforced where they are resolved.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use agent_protocol::v1::Via;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::limits::PROXY_REPLY;
use crate::tunnels::client::Client;
use crate::tunnels::pending::{NearEnd, OutboundTarget, PendingConnections};

/// The first byte of SOCKS5 (RFC 1928, section 3). No HTTP request begins with it.
pub(super) const SOCKS_5: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;

const CONNECT: u8 = 1;

const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Reply fields (section 6) that the proxy itself sends.
const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_NOT_SUPPORTED: u8 = 8;

/// Why a request could not be read.
enum Fault {
    /// Answered with this code.
    Reply(u8),
    Io,
}

impl From<io::Error> for Fault {
    fn from(_: io::Error) -> Self {
        Self::Io
    }
}

pub(super) async fn serve(mut client: Client, pending: &PendingConnections) {
    let target = match timeout(pending.timeouts.head, read_target(&mut client)).await {
        Ok(Ok(target)) => target,
        Ok(Err(Fault::Reply(code))) => return reply(&mut client, code).await.unwrap_or_default(),
        Ok(Err(Fault::Io)) | Err(_) => return,
    };
    match pending.request(&target).await {
        Ok(connection) => {
            if reply(&mut client, SUCCEEDED).await.is_ok() {
                connection.attach(NearEnd::Client(client, Bytes::new()));
            }
        }
        Err(refusal) => reply(&mut client, refusal.socks_code()).await.unwrap_or_default(),
    }
}

async fn read_target(client: &mut Client) -> Result<OutboundTarget, Fault> {
    let [_, count] = read(client).await?;
    let mut methods = vec![0; count.into()];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        client.write_all(&[SOCKS_5, NO_ACCEPTABLE_METHOD]).await?;
        return Err(Fault::Io);
    }
    client.write_all(&[SOCKS_5, NO_AUTHENTICATION]).await?;
    let [version, command, _, kind] = read(client).await?;
    if version != SOCKS_5 {
        return Err(Fault::Reply(FAILED));
    }
    let host = match kind {
        IPV4 => Ipv4Addr::from(read::<4>(client).await?).to_string(),
        IPV6 => Ipv6Addr::from(read::<16>(client).await?).to_string(),
        NAME => read_name(client).await?,
        _ => return Err(Fault::Reply(ADDRESS_NOT_SUPPORTED)),
    };
    let port = u16::from_be_bytes(read(client).await?);
    if command != CONNECT {
        return Err(Fault::Reply(COMMAND_NOT_SUPPORTED));
    }
    OutboundTarget::new(&host, port, Via::Socks).map_err(|refusal| Fault::Reply(refusal.socks_code()))
}

/// A name that is not UTF-8 becomes an empty name, which is rejected.
async fn read_name(client: &mut Client) -> io::Result<String> {
    let [length] = read(client).await?;
    let mut name = vec![0; length.into()];
    client.read_exact(&mut name).await?;
    Ok(String::from_utf8(name).unwrap_or_default())
}

async fn read<const LENGTH: usize>(client: &mut Client) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// The address in the reply is not used, and all zeros.
async fn reply(client: &mut Client, code: u8) -> io::Result<()> {
    let bytes = [SOCKS_5, code, 0, IPV4, 0, 0, 0, 0, 0, 0];
    timeout(PROXY_REPLY, client.write_all(&bytes)).await?
}

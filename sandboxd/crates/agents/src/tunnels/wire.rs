//! Conversion of ports and sockets between the protocol and the model.

use std::net::IpAddr;

use agent_protocol::v1;

use crate::Error;
use sandboxd_model::limits;
use sandboxd_model::port::{ListeningPort, PortProcess};

pub(super) fn listening_port(wire: v1::ListeningSocket) -> Result<ListeningPort, Error> {
    let process = wire.process.map(|process| PortProcess { pid: process.pid, name: name(process.name) });
    Ok(ListeningPort { port: port_number(wire.port)?, address: address(&wire.address)?, process })
}

fn address(text: &str) -> Result<IpAddr, Error> {
    text.parse().map_err(|_| Error::Malformed { missing: "address" })
}

pub(super) fn port_number(wire: u32) -> Result<u16, Error> {
    let port = u16::try_from(wire).ok().filter(|port| *port > 0);
    port.ok_or(Error::Malformed { missing: "port" })
}

/// Processes choose their names, so a name may contain anything.
fn name(mut wire: String) -> String {
    wire.truncate(wire.floor_char_boundary(limits::MAX_PROCESS_NAME_BYTES));
    wire.replace(char::is_control, "?")
}

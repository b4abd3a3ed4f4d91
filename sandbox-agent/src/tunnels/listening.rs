//! The TCP sockets that listen in the sandbox, as listed in /proc (proc_net(5), proc_pid_fd(5)).
//!
//! The owner of a socket is found through the open files of processes. The sandbox controls their number, so only a
//! limited number is examined. A socket in the report may belong to another process by the time of a connection.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use agent_protocol::v1::{ListeningProcess, ListeningReply, ListeningSocket};

use crate::limits::{MAX_EXAMINED_FILES, MAX_EXAMINED_SOCKETS, MAX_LISTENING};

/// TCP_LISTEN of the kernel's tcp_states.h.
const LISTENING: &str = "0A";

const LISTS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    address: SocketAddr,
    inode: u64,
}

/// Lists all listening sockets except `own`, by port.
pub(super) fn list(own: &[SocketAddr]) -> ListeningReply {
    let mut truncated = false;
    let mut sockets = Vec::new();
    for list in LISTS {
        truncated |= read(list, &mut sockets);
    }
    sockets.retain(|socket| !own.contains(&socket.address));
    sockets.sort_by_key(|socket| (socket.address.port(), socket.address.ip()));
    truncated |= sockets.len() > MAX_LISTENING;
    sockets.truncate(MAX_LISTENING);
    let (mut processes, all_seen) = owners(&sockets);
    truncated |= !all_seen;
    let listening = sockets.iter().map(|socket| ListeningSocket {
        port: socket.address.port().into(),
        address: socket.address.ip().to_string(),
        process: processes.remove(&socket.inode),
    });
    ListeningReply { sockets: listening.collect(), truncated }
}

/// Reads a list. Returns true if it is longer than the limit.
fn read(list: &str, sockets: &mut Vec<Socket>) -> bool {
    // A kernel without IPv6 has no list of its sockets.
    let Ok(file) = File::open(list) else {
        return false;
    };
    // The first line has the names of the columns.
    let mut lines = BufReader::new(file).lines().map_while(Result::ok).skip(1);
    sockets.extend(lines.by_ref().take(MAX_EXAMINED_SOCKETS).filter_map(|line| parse(&line)));
    lines.next().is_some()
}

/// Parses the line of a listening socket: `sl local_address rem_address st … uid timeout inode …`.
fn parse(line: &str) -> Option<Socket> {
    let mut fields = line.split_ascii_whitespace();
    let (local, state) = (fields.nth(1)?, fields.nth(1)?);
    if state != LISTENING {
        return None;
    }
    let inode = fields.nth(5)?.parse().ok()?;
    let (ip, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(Socket { address: SocketAddr::new(parse_ip(ip)?, port), inode })
}

/// Parses 32-bit words. Each is printed as a number of this machine, although its bytes are in network order.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let digits = hex.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

/// Finds the owners of sockets by inode. Returns false if not all files could be examined.
fn owners(sockets: &[Socket]) -> (HashMap<u64, ListeningProcess>, bool) {
    let mut found = HashMap::new();
    let mut left = MAX_EXAMINED_FILES;
    let Ok(entries) = fs::read_dir("/proc") else {
        return (found, false);
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for pid in pids.filter(|pid| *pid != 1) {
        // The process has ended, or the agent may not read its files.
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        for file in files.flatten() {
            if left == 0 {
                return (found, false);
            }
            left -= 1;
            let inode = fs::read_link(file.path()).ok().and_then(|target| inode_of(target.to_str()?));
            if let Some(inode) = inode.filter(|inode| sockets.iter().any(|socket| socket.inode == *inode)) {
                found.entry(inode).or_insert_with(|| ListeningProcess { pid, name: name_of(pid) });
            }
        }
        if found.len() == sockets.len() {
            break;
        }
    }
    (found, true)
}

/// Parses a link's target `socket:[<inode>]`.
fn inode_of(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn name_of(pid: i32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn listening_sockets_are_listed_with_their_process() {
        let one = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpListener::bind("[::1]:0").unwrap();
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        let reply = list(&[own.local_addr().unwrap()]);
        let find = |listener: &TcpListener| {
            let address = listener.local_addr().unwrap();
            reply.sockets.iter().find(|socket| socket.port == u32::from(address.port()))
        };
        let me = std::process::id() as i32;
        for (listener, address) in [(&one, "127.0.0.1"), (&other, "::1")] {
            let socket = find(listener).unwrap();
            assert_eq!(socket.address, address);
            assert_eq!(socket.process.as_ref().map(|process| process.pid), Some(me));
            assert!(socket.process.as_ref().is_some_and(|process| !process.name.is_empty()));
        }
        assert_eq!(find(&own), None);
    }

    #[test]
    fn only_lines_of_listening_sockets_count() {
        let line = |local: &str, state: &str| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 1000 0 4711 1 0"
            )
        };
        let parsed = parse(&line("0100007F:1F90", "0A")).unwrap();
        assert_eq!((parsed.address, parsed.inode), ("127.0.0.1:8080".parse().unwrap(), 4711));
        let six = parse(&line("00000000000000000000000001000000:0050", "0A")).unwrap();
        assert_eq!(six.address, "[::1]:80".parse().unwrap());
        assert_eq!(parse(&line("0100007F:1F90", "01")), None);
        for bad in ["", "0: 0100007F", "0: 01:zz x 0A 1 2 3 4 5 6", "0: 010000:50 x 0A 1 2 3 4 5 6"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}

//! The disks' helper: creates file systems in files and attaches loop devices to them.
//!
//! It runs in its own container beside the sandboxes, with the disks' volume and the right to open loop devices, and
//! nothing else. It never mounts anything. The engine mounts, through the link that [`pool::Pool::attach`] creates.
//! It never detaches anything either: the kernel detaches a device when no process and no mount uses it.
//!
//! Its protocol is lines. A request is a number, a verb and arguments. A response is `NUMBER ok …` or `NUMBER err
//! KIND …`, in the order in which the work finishes. The first line of output is [`HELLO`]. It exits when its input
//! ends.

mod bases;
mod ext4;
mod fault;
mod loop_device;
mod notes;
mod pool;

use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use self::bases::Base;
use self::fault::Fault;
use self::pool::{Pool, Use};

/// The first line of output. It shows that the program runs, and its protocol version.
const HELLO: &str = "sandbox-disks 1";

/// Number of requests that are processed concurrently.
const WORKERS: usize = 4;

/// Number of requests that wait for a worker. More wait in the pipe.
const WAITING: usize = 64;

/// Maximum length of an error's text in bytes.
const MAX_ERROR_BYTES: usize = 300;

/// Serves the disks of `dir` until standard input ends.
pub(crate) fn serve(dir: &Path) -> io::Result<()> {
    let pool = Arc::new(Pool::open(dir)?);
    write_line(&HELLO)?;
    let (requests, waiting) = sync_channel::<String>(WAITING);
    let waiting = Arc::new(Mutex::new(waiting));
    for _ in 0..WORKERS {
        let (pool, waiting) = (Arc::clone(&pool), Arc::clone(&waiting));
        std::thread::Builder::new().spawn(move || work(&pool, &waiting))?;
    }
    for line in io::stdin().lock().lines() {
        if requests.send(line?).is_err() {
            break;
        }
    }
    // Workers are not awaited: their work may stop at any moment without damage, and responses are no longer read.
    Ok(())
}

fn work(pool: &Pool, waiting: &Mutex<Receiver<String>>) {
    loop {
        // A panic while the lock was held leaves no inconsistent state.
        let received = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(line) = received else { return };
        let (number, request) = line.split_once(' ').unwrap_or((&line, ""));
        let response = match answer(pool, number, request) {
            Ok(words) => write_line(&format_args!("{number} ok{words}")),
            Err(fault) => {
                write_line(&format_args!("{number} err {} {}", fault.kind(), one_line(&fault.to_string())))
            }
        };
        if response.is_err() {
            return;
        }
    }
}

/// Processes `request`. Returns the words after `ok`, each with a space before it.
fn answer(pool: &Pool, number: &str, request: &str) -> Result<String, Fault> {
    let words: Vec<&str> = request.split(' ').collect();
    match words[..] {
        ["make", name, mib] => {
            let mib = mib.parse().map_err(|_| Fault::Unknown)?;
            Ok(format!(" {}", pool.make(&checked(name)?, mib)?))
        }
        ["attach", name, uuid, owner] => {
            let owner = owner.parse().map_err(|_| Fault::Unknown)?;
            pool.attach(&checked(name)?, uuid, owner).map(|()| String::new())
        }
        ["release", name] => pool.release(&checked(name)?).map(|()| String::new()),
        ["note", name, word] => pool.set_note(&checked(name)?, word).map(|()| String::new()),
        ["noted", name] => {
            for part in pool.note(&checked(name)?)? {
                write_line(&format_args!("{number} part {part}")).map_err(Fault::io("answer"))?;
            }
            Ok(String::new())
        }
        ["remove", name] => pool.remove(&checked(name)?).map(|()| String::new()),
        ["list"] => {
            for Use { name, allocated_bytes, attached, used } in pool.list()? {
                let line = format_args!("{number} disk {name} {allocated_bytes} {attached} {used}");
                write_line(&line).map_err(Fault::io("answer"))?;
            }
            Ok(String::new())
        }
        ["base", name, bytes] => {
            let bytes = bytes.parse().map_err(|_| Fault::Unknown)?;
            pool.finish_base(checked_base(name)?, bytes).map(|()| String::new())
        }
        ["remove-base", name] => pool.remove_base(checked_base(name)?).map(|()| String::new()),
        ["bases"] => {
            for Base { name, allocated_bytes, made_s } in pool.bases()? {
                write_line(&format_args!("{number} base {name} {allocated_bytes} {made_s}"))
                    .map_err(Fault::io("answer"))?;
            }
            Ok(String::new())
        }
        ["space"] => pool.space().map(|(free, total)| format!(" {free} {total}")),
        _ => Err(Fault::Unknown),
    }
}

/// Checks a name that becomes part of a path: 1 to 64 letters, digits or `_`.
fn checked(name: &str) -> Result<String, Fault> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    ((1..=64).contains(&name.len()) && name.bytes().all(is_good))
        .then(|| name.to_owned())
        .ok_or(Fault::Unknown)
}

fn checked_base(name: &str) -> Result<&str, Fault> {
    if bases::is_name(name) { Ok(name) } else { Err(Fault::Unknown) }
}

fn write_line(line: &dyn fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn one_line(text: &str) -> String {
    let mut cut = text.len().min(MAX_ERROR_BYTES);
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    text[..cut].replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_the_directory() {
        assert!(checked("dsk_0123456789abcdef").is_ok());
        for name in ["", "..", "a/b", "a.img", "a b", &"x".repeat(65)] {
            assert!(checked(name).is_err(), "{name}");
        }
    }

    #[test]
    fn an_invalid_request_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::open(dir.path()).unwrap();
        for request in [
            "",
            "make",
            "make a",
            "make a x",
            "make ../a 8",
            "attach a",
            "release a b",
            "note a",
            "note ../a x",
            "noted ../a",
            "base a 1",
            "format /",
        ] {
            assert!(matches!(answer(&pool, "1", request), Err(Fault::Unknown)), "{request}");
        }
        assert!(matches!(answer(&pool, "1", "release a"), Err(Fault::Absent)));
        assert!(answer(&pool, "1", "remove a").is_ok());
    }

    #[test]
    fn an_error_is_one_short_line() {
        let text = format!("a\nb{}", "ä".repeat(400));
        let line = one_line(&text);
        assert!(line.starts_with("a b") && line.len() <= MAX_ERROR_BYTES);
    }
}

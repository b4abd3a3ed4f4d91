//! The disks' helper: makes file systems in files and lends loop devices for them.
//!
//! It runs in a container of its own, beside the sandboxes and never in one, with the disks' volume and the
//! right to open loop devices and nothing else. What may surprise: it never mounts anything. The engine
//! does, through the link [`pool::Pool::attach`] leaves; and it never detaches anything either, because
//! each device is told to let go of its file as soon as nobody has it open.
//!
//! It speaks lines: a number, a verb and its words come in; `NUMBER ok …` or `NUMBER err KIND …` goes out,
//! in the order in which the work is done. The first line out is [`HELLO`]. It ends with its input.

mod ext4;
mod loop_device;
mod pool;

use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::pool::{Pool, Use};

/// The first line, so that whoever listens knows that the program runs and which words it knows.
const HELLO: &str = "sandbox-disks 1";

/// Requests that are worked on at once.
const WORKERS: usize = 4;

/// Requests that wait for a worker; more wait in the pipe.
const WAITING: usize = 64;

/// What an error's text is cut to, in bytes.
const MAX_ERROR_BYTES: usize = 300;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// Not a request.
    #[error("not a request")]
    Unknown,
    /// There is no such disk, or it is not attached.
    #[error("no such disk")]
    Absent,
    /// The file system is another one than it should be, or the link was changed.
    #[error("it is {found}")]
    Mismatch { found: String },
    /// Somebody uses it.
    #[error("in use")]
    Busy,
    /// The kernel lends no loop device. Never its storage that is full, whatever its error is called.
    #[error("{source}")]
    NoDevice { source: io::Error },
    /// A step failed.
    #[error("{step}: {source}")]
    Io { step: &'static str, source: io::Error },
    /// A program that was called failed.
    #[error("{program} said: {said}")]
    Program { program: &'static str, said: String },
}

impl Fault {
    pub(crate) fn io(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { step, source }
    }

    /// Its name on the wire.
    fn kind(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Absent => "absent",
            Self::Mismatch { .. } => "mismatch",
            Self::Busy => "busy",
            Self::NoDevice { .. } => "device",
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => "full",
            // Programs tell it in words alone, which their locale here leaves as they are.
            Self::Program { said, .. } if said.contains("No space left on device") => "full",
            Self::Io { .. } | Self::Program { .. } => "failed",
        }
    }
}

/// Serves the disks of `dir` until standard input ends.
pub(crate) fn serve(dir: &Path) -> io::Result<()> {
    let pool = Arc::new(Pool::open(dir)?);
    say(&HELLO)?;
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
    // Workers are not waited for: what they do is good at any moment of a death, and nobody reads answers.
    Ok(())
}

fn work(pool: &Pool, waiting: &Mutex<Receiver<String>>) {
    loop {
        let Ok(line) = lock(waiting).recv() else { return };
        let (number, request) = line.split_once(' ').unwrap_or((&line, ""));
        let said = match answer(pool, number, request) {
            Ok(words) => say(&format_args!("{number} ok{words}")),
            Err(fault) => {
                say(&format_args!("{number} err {} {}", fault.kind(), one_line(&fault.to_string())))
            }
        };
        if said.is_err() {
            return;
        }
    }
}

/// Does what `request` asks for; the words after `ok`, each with a space before it.
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
        ["remove", name] => pool.remove(&checked(name)?).map(|()| String::new()),
        ["list"] => {
            for Use { name, allocated_bytes, attached, used } in pool.list()? {
                let line = format_args!("{number} disk {name} {allocated_bytes} {attached} {used}");
                say(&line).map_err(Fault::io("answer"))?;
            }
            Ok(String::new())
        }
        ["space"] => pool.space().map(|(free, total)| format!(" {free} {total}")),
        _ => Err(Fault::Unknown),
    }
}

/// A name that leads nowhere: 1 to 64 letters, digits or `_`.
fn checked(name: &str) -> Result<String, Fault> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    ((1..=64).contains(&name.len()) && name.bytes().all(is_good))
        .then(|| name.to_owned())
        .ok_or(Fault::Unknown)
}

fn say(line: &dyn fmt::Display) -> io::Result<()> {
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

/// A panic while it was held leaves nothing half done that the next one would trip over.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere() {
        assert!(checked("dsk_0123456789abcdef").is_ok());
        for name in ["", "..", "a/b", "a.img", "a b", &"x".repeat(65)] {
            assert!(checked(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_request_that_is_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::open(dir.path()).unwrap();
        for request in
            ["", "make", "make a", "make a x", "make ../a 8", "attach a", "release a b", "format /"]
        {
            assert!(matches!(answer(&pool, "1", request), Err(Fault::Unknown)), "{request}");
        }
        assert!(matches!(answer(&pool, "1", "release a"), Err(Fault::Absent)));
        assert!(answer(&pool, "1", "remove a").is_ok());
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let program = |said: &str| Fault::Program { program: "mke2fs", said: said.into() }.kind();
        assert_eq!(program("write: No space left on device"), "full");
        assert_eq!(program("killed"), "failed");
        assert_eq!(Fault::io("size image")(io::ErrorKind::StorageFull.into()).kind(), "full");
        assert_eq!(Fault::NoDevice { source: io::ErrorKind::StorageFull.into() }.kind(), "device");
    }

    #[test]
    fn an_error_is_one_short_line() {
        let text = format!("a\nb{}", "ä".repeat(400));
        let line = one_line(&text);
        assert!(line.starts_with("a b") && line.len() <= MAX_ERROR_BYTES);
    }
}

//! The lines of git's protocols (gitprotocol-common(5)) and the lists of refs in them.

use sandboxd_model::limits;
use sandboxd_model::repository::{Advertisement, CommitHash};

use crate::Error;

/// Suffix of the commit that an annotated tag names, in the first protocol.
const PEELED: &str = "^{}";

/// A line, or a mark between lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    /// Without the line feed at its end.
    Line(&'a [u8]),
    /// The end of a section: a flush, a delimiter or the end of a response.
    Mark,
}

/// Reads lines.
pub(crate) fn packets(bytes: &[u8]) -> impl Iterator<Item = Result<Packet<'_>, Error>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let packet = split(&mut rest);
        if packet.is_err() {
            rest = &[];
        }
        Some(packet)
    })
}

fn split<'a>(rest: &mut &'a [u8]) -> Result<Packet<'a>, Error> {
    let malformed = || Error::Malformed("a line has no valid length");
    let digits = rest.get(..4).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(malformed)?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(malformed());
    }
    let length = usize::from_str_radix(digits, 16).map_err(|_| malformed())?;
    match length {
        0..=2 => {
            *rest = &rest[4..];
            Ok(Packet::Mark)
        }
        3 => Err(malformed()),
        _ => {
            let line = rest.get(4..length).ok_or_else(malformed)?;
            *rest = &rest[length..];
            Ok(Packet::Line(line.strip_suffix(b"\n").unwrap_or(line)))
        }
    }
}

/// Writes a line.
pub(crate) fn line(text: &str) -> String {
    format!("{:04x}{text}\n", text.len() + 5)
}

/// Response of a server to the request for its refs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// It speaks the second protocol, in which the refs are requested separately.
    Second,
    /// The refs, in the first protocol.
    First(Advertisement),
}

/// Reads the response to `info/refs` (gitprotocol-http(5)).
pub(crate) fn greeting(bytes: &[u8]) -> Result<Greeting, Error> {
    let mut lines = packets(bytes);
    let mut first = lines.next().ok_or(Error::Malformed("it is empty"))??;
    // Optional in the second protocol.
    if first == Packet::Line(b"# service=git-upload-pack") {
        lines.next().transpose()?;
        first = lines.next().ok_or(Error::Malformed("it has no refs"))??;
    }
    if first == Packet::Line(b"version 2") {
        return Ok(Greeting::Second);
    }
    let mut found = Advertisement::default();
    let mut next = Some(Ok(first));
    while let Some(packet) = next {
        let Packet::Line(line) = packet? else { break };
        let (line, capabilities) = split_at_nul(line);
        if let Some(head) = capabilities.split(' ').find_map(|it| it.strip_prefix("symref=HEAD:")) {
            found.head_ref = Some(head.to_owned());
        }
        if line != b"version 1" {
            add_first(&mut found, line)?;
        }
        next = lines.next();
    }
    Ok(Greeting::First(found))
}

/// A line of the first protocol: `<hash> <name>`.
fn add_first(found: &mut Advertisement, line: &[u8]) -> Result<(), Error> {
    let Some((hash, name)) = hash_and_rest(line)? else { return Ok(()) };
    if let Some(tag) = name.strip_suffix(PEELED) {
        // Follows the line of the tag itself.
        if let Some(last) = found.refs.last_mut().filter(|(last, _)| last == tag) {
            last.1 = hash;
        }
        return Ok(());
    }
    add(found, name, hash)
}

/// Reads the response to `ls-refs` (gitprotocol-v2(5)): `<hash> <name> [symref-target:<name>] [peeled:<hash>]`.
pub(crate) fn refs(bytes: &[u8]) -> Result<Advertisement, Error> {
    let mut found = Advertisement::default();
    for packet in packets(bytes) {
        let Packet::Line(line) = packet? else { break };
        if line.starts_with(b"ERR ") {
            return Err(Error::Malformed("the server reports an error"));
        }
        let Some((hash, rest)) = hash_and_rest(line)? else { continue };
        let mut parts = rest.split(' ');
        let name = parts.next().unwrap_or_default();
        let (mut commit, mut target) = (hash, None);
        for part in parts {
            if let Some(peeled) = part.strip_prefix("peeled:") {
                commit = peeled.parse().map_err(|_| Error::Malformed("a tag names no commit"))?;
            }
            target = part.strip_prefix("symref-target:").or(target);
        }
        if name == "HEAD" {
            found.head_ref = target.map(str::to_owned);
        }
        add(&mut found, name, commit)?;
    }
    Ok(found)
}

fn add(found: &mut Advertisement, name: &str, commit: CommitHash) -> Result<(), Error> {
    if name == "HEAD" {
        found.head = Some(commit);
        return Ok(());
    }
    if found.refs.len() == limits::MAX_REFS {
        return Err(Error::Malformed("it has too many refs"));
    }
    found.refs.push((name.to_owned(), commit));
    Ok(())
}

/// The hash and what follows it. `None` for names that are not UTF-8, which no request can name, for a branch without a
/// commit, and for the placeholder of an empty repository.
fn hash_and_rest(line: &[u8]) -> Result<Option<(CommitHash, &str)>, Error> {
    let Ok(line) = std::str::from_utf8(line) else { return Ok(None) };
    let (hash, rest) = line.split_once(' ').ok_or(Error::Malformed("a ref has no name"))?;
    if hash == "unborn" || rest == "capabilities^{}" {
        return Ok(None);
    }
    let hash = hash.parse().map_err(|_| Error::Malformed("a ref has no commit with a SHA-1"))?;
    Ok(Some((hash, rest)))
}

fn split_at_nul(line: &[u8]) -> (&[u8], &str) {
    match line.iter().position(|byte| *byte == 0) {
        None => (line, ""),
        Some(at) => (&line[..at], std::str::from_utf8(&line[at + 1..]).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(digit: &str) -> String {
        digit.repeat(40)
    }

    fn commit(digit: &str) -> CommitHash {
        hash(digit).parse().unwrap()
    }

    #[test]
    fn the_first_protocol_is_read() {
        let text = [
            line("# service=git-upload-pack"),
            "0000".into(),
            line(&format!("{} HEAD\0multi_ack symref=HEAD:refs/heads/main agent=git", hash("a"))),
            line(&format!("{} refs/heads/main", hash("a"))),
            line(&format!("{} refs/tags/v1", hash("b"))),
            line(&format!("{} refs/tags/v1^{{}}", hash("c"))),
            "0000".into(),
        ];
        let Greeting::First(found) = greeting(text.concat().as_bytes()).unwrap() else { panic!("first") };
        assert_eq!((found.head, found.head_ref.as_deref()), (Some(commit("a")), Some("refs/heads/main")));
        let named = |name: &str, digit| (name.to_owned(), commit(digit));
        assert_eq!(found.refs, [named("refs/heads/main", "a"), named("refs/tags/v1", "c")]);
    }

    #[test]
    fn the_second_protocol_is_read() {
        let text = [line("# service=git-upload-pack"), "0000".into(), line("version 2"), line("agent=git")];
        assert_eq!(greeting(text.concat().as_bytes()).unwrap(), Greeting::Second);
        assert_eq!(greeting(line("version 2").as_bytes()).unwrap(), Greeting::Second);
        let text = [
            line("unborn refs/heads/x"),
            line(&format!("{} HEAD symref-target:refs/heads/main", hash("a"))),
            line(&format!("{} refs/tags/v1 peeled:{}", hash("b"), hash("c"))),
            "0000".into(),
        ];
        let found = refs(text.concat().as_bytes()).unwrap();
        assert_eq!((found.head, found.head_ref.as_deref()), (Some(commit("a")), Some("refs/heads/main")));
        assert_eq!(found.refs, [("refs/tags/v1".to_owned(), commit("c"))]);
    }

    #[test]
    fn an_empty_repository_has_no_refs() {
        let text = line(&format!("{} capabilities^{{}}\0agent=git", hash("0"))) + "0000";
        assert_eq!(greeting(text.as_bytes()).unwrap(), Greeting::First(Advertisement::default()));
    }

    #[test]
    fn what_is_not_git_is_rejected() {
        for bad in [
            &b"<html>"[..],
            b"",
            b"0003",
            b"ffff",
            b"+0a5",
            b"00",
            b"0008abc",
            b"0009hello",
            b"000bxy abc\n",
            line("ERR no").as_bytes(),
        ] {
            assert!(greeting(bad).is_err() || refs(bad).is_err(), "{bad:?}");
        }
        let sha256 = line(&format!("{} HEAD", "a".repeat(64)));
        assert!(refs(sha256.as_bytes()).is_err());
    }

    #[test]
    fn no_more_refs_are_kept_than_the_limit() {
        let one = line(&format!("{} refs/heads/x", hash("a")));
        assert!(refs(one.repeat(limits::MAX_REFS).as_bytes()).is_ok());
        assert!(refs(one.repeat(limits::MAX_REFS + 1).as_bytes()).is_err());
    }
}

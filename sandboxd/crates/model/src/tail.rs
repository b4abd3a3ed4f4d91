//! The end of a text of any length, in bounded memory.

/// The last bytes of the text, cut between characters, and the number of bytes before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    bytes: Vec<u8>,
    limit: usize,
    /// Offset of the kept part. The bytes before it are discarded when they are as many as the kept ones.
    begin: usize,
    pushed_bytes: u64,
}

/// Bytes of a character after its first (RFC 3629).
const MAX_CONTINUATION_BYTES: usize = 3;

impl Tail {
    /// Creates an empty tail that keeps at most `limit` bytes and needs memory for twice as many.
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, begin: 0, pushed_bytes: 0 }
    }

    /// Appends bytes.
    pub fn push(&mut self, data: &[u8]) {
        self.pushed_bytes += data.len() as u64;
        for piece in data.chunks(self.limit.max(1)) {
            self.bytes.extend_from_slice(piece);
            self.cut_to(self.limit);
            if self.begin >= self.limit {
                self.bytes.drain(..self.begin);
                self.begin = 0;
            }
        }
    }

    /// The kept bytes.
    pub fn kept(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    /// Number of bytes before the kept ones.
    pub fn cut_bytes(&self) -> u64 {
        self.pushed_bytes - self.kept().len() as u64
    }

    /// Keeps at most the last `limit` bytes. Also drops the rest of a character that is cut.
    pub fn cut_to(&mut self, limit: usize) {
        let excess = self.kept().len().saturating_sub(limit);
        if excess == 0 {
            return;
        }
        self.begin += excess;
        let rest = self.kept().iter().take(MAX_CONTINUATION_BYTES);
        self.begin += rest.take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_the_rest_is_counted() {
        let mut tail = Tail::new(5);
        for piece in ["ab", "", "cdefghijklmnopqrst", "u", "vw"] {
            tail.push(piece.as_bytes());
        }
        assert_eq!((tail.kept(), tail.cut_bytes()), (&b"stuvw"[..], 18));
        tail.cut_to(2);
        assert_eq!((tail.kept(), tail.cut_bytes()), (&b"vw"[..], 21));
        tail.cut_to(0);
        assert_eq!((tail.kept(), tail.cut_bytes()), (&b""[..], 23));
    }

    #[test]
    fn a_character_is_never_split() {
        for limit in 0..12 {
            let mut tail = Tail::new(limit);
            "a€é𝄞€é".chars().for_each(|char| tail.push(char.to_string().as_bytes()));
            let kept = std::str::from_utf8(tail.kept()).unwrap();
            assert!("a€é𝄞€é".ends_with(kept) && kept.len() + 3 >= limit, "{limit}: {kept}");
            assert_eq!(kept.len() as u64 + tail.cut_bytes(), "a€é𝄞€é".len() as u64);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut tail = Tail::new(1000);
        (0..10_000).for_each(|_| tail.push(&[b'x'; 777]));
        assert!(tail.bytes.len() <= 3000, "{}", tail.bytes.len());
    }
}

//! Which part of a text is kept.

/// Which part of a long output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The beginning.
    Head,
    /// The end.
    Tail,
    /// The beginning and the end, half of the characters each.
    Both,
}

impl Keep {
    /// How many of the kept characters are from the beginning.
    pub(crate) fn head_of(self, max_chars: usize) -> usize {
        match self {
            Self::Head => max_chars,
            Self::Tail => 0,
            Self::Both => max_chars / 2,
        }
    }
}

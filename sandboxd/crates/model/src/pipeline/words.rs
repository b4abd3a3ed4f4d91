//! Words: quotes, expansions and substitutions.

use super::scanner::{End, NotUnderstood, Scan, Scanner, ends_word};

/// Bytes that make a word something else than its text.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'\\' | b'\'' | b'"' | b'`' | b'$')
}

impl<'a> Scanner<'a> {
    /// Returns the next word if it has no quotes and no expansions.
    pub(super) fn peek_plain_word(&self) -> Option<&'a [u8]> {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| ends_word(*byte)).unwrap_or(rest.len());
        let word = &rest[..length];
        (length > 0 && !word.iter().any(|byte| is_special(*byte))).then_some(word)
    }

    /// Skips one word. Returns whether there was one.
    pub(super) fn word(&mut self) -> Scan<bool> {
        let begin = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b'(' if self.at > begin => match self.text[self.at - 1] {
                    b'=' => self.nested(Self::array)?,
                    b'?' | b'*' | b'+' | b'@' | b'!' => self.nested(Self::pattern_group)?,
                    _ => break,
                },
                b'<' | b'>' if self.text.get(self.at + 1) == Some(&b'(') => {
                    self.at += 2;
                    self.nested(Self::substitution)?;
                }
                _ if ends_word(byte) => break,
                _ => self.word_part(byte)?,
            }
        }
        Ok(self.at > begin)
    }

    /// Skips a quoted part, an expansion or one byte of a word.
    fn word_part(&mut self, byte: u8) -> Scan<()> {
        self.at += 1;
        match byte {
            b'\\' => self.escaped(),
            b'\'' => self.until(b'\''),
            b'"' => self.nested(Self::double_quoted),
            b'`' => self.backquoted(),
            b'$' if self.take("'") => self.ansi_quoted(),
            b'$' => self.expansion(),
            _ => Ok(()),
        }
    }

    fn escaped(&mut self) -> Scan<()> {
        self.peek().ok_or(NotUnderstood)?;
        self.at += 1;
        Ok(())
    }

    fn until(&mut self, end: u8) -> Scan<()> {
        let length = self.text[self.at..].iter().position(|byte| *byte == end).ok_or(NotUnderstood)?;
        self.at += length + 1;
        Ok(())
    }

    fn ansi_quoted(&mut self) -> Scan<()> {
        self.until_unescaped(b'\'')
    }

    fn backquoted(&mut self) -> Scan<()> {
        self.until_unescaped(b'`')
    }

    fn until_unescaped(&mut self, end: u8) -> Scan<()> {
        loop {
            let byte = self.peek().ok_or(NotUnderstood)?;
            self.at += 1;
            match byte {
                b'\\' => self.escaped()?,
                _ if byte == end => return Ok(()),
                _ => {}
            }
        }
    }

    fn double_quoted(&mut self) -> Scan<()> {
        loop {
            let byte = self.peek().ok_or(NotUnderstood)?;
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => self.escaped()?,
                b'`' => self.backquoted()?,
                b'$' => self.quoted_expansion()?,
                _ => {}
            }
        }
    }

    /// Skips what follows a dollar sign in double quotes.
    fn quoted_expansion(&mut self) -> Scan<()> {
        if !self.take("{") {
            return self.expansion();
        }
        self.nested(|scanner| scanner.parameter(true))
    }

    /// Skips what follows a dollar sign.
    fn expansion(&mut self) -> Scan<()> {
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                if self.take("(") {
                    return self.nested(|scanner| scanner.arithmetic(false));
                }
                self.nested(Self::substitution)
            }
            Some(b'{') => {
                self.at += 1;
                self.nested(|scanner| scanner.parameter(false))
            }
            // An old form of arithmetic.
            Some(b'[') => Err(NotUnderstood),
            // A name or one sign follows, or nothing.
            _ => Ok(()),
        }
    }

    /// Skips commands up to a closing parenthesis.
    fn substitution(&mut self) -> Scan<()> {
        if !self.here_documents.is_empty() {
            return Err(NotUnderstood);
        }
        self.list(End::Parenthesis)
    }

    fn parameter(&mut self, in_quotes: bool) -> Scan<()> {
        // Commands in braces, of bash 5.3.
        if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'|')) {
            return Err(NotUnderstood);
        }
        loop {
            let byte = self.peek().ok_or(NotUnderstood)?;
            match byte {
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                // What a quote means here depends on the kind of the expansion.
                b'\'' if in_quotes => return Err(NotUnderstood),
                b'$' if in_quotes => {
                    self.at += 1;
                    self.quoted_expansion()?;
                }
                _ => self.word_part(byte)?,
            }
        }
    }

    /// Skips arithmetic up to its two closing parentheses. Only that of a loop has semicolons.
    pub(super) fn arithmetic(&mut self, is_loop: bool) -> Scan<()> {
        let mut open = 0;
        loop {
            let byte = self.peek().ok_or(NotUnderstood)?;
            match byte {
                // Commands in two parentheses, which look like arithmetic, have these.
                b'\n' | b'#' => return Err(NotUnderstood),
                b';' if !is_loop => return Err(NotUnderstood),
                b')' if open == 0 => return self.expect("))"),
                _ => self.word_part(byte)?,
            }
            match byte {
                b'(' => open += 1,
                b')' => open -= 1,
                _ => {}
            }
        }
    }

    /// Skips the values of an array, from the opening parenthesis.
    fn array(&mut self) -> Scan<()> {
        self.at += 1;
        loop {
            self.blanks_and_lines()?;
            if self.take(")") {
                return Ok(());
            }
            if !self.word()? {
                return Err(NotUnderstood);
            }
        }
    }

    /// Skips the alternatives of a pattern, from the opening parenthesis.
    fn pattern_group(&mut self) -> Scan<()> {
        self.at += 1;
        loop {
            self.word()?;
            if self.take(")") {
                return Ok(());
            }
            self.expect("|")?;
        }
    }
}

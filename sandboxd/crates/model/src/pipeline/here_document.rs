//! Here-documents.

use super::scanner::{HereDocument, NotUnderstood, Scan, Scanner, ends_word};

impl Scanner<'_> {
    /// Reads the word that ends a here-document, after the operator.
    pub(super) fn here_document(&mut self) -> Scan<()> {
        let skips_tabs = self.take("-");
        self.blanks();
        let mut last_line = Vec::new();
        let begin = self.at;
        while let Some(byte) = self.peek().filter(|byte| !ends_word(*byte)) {
            self.at += 1;
            match byte {
                b'\'' | b'"' => self.quoted_part(byte, &mut last_line)?,
                b'\\' => {
                    last_line.push(self.peek().ok_or(NotUnderstood)?);
                    self.at += 1;
                }
                b'$' | b'`' => return Err(NotUnderstood),
                _ => last_line.push(byte),
            }
        }
        if self.at == begin || last_line.contains(&b'\n') {
            return Err(NotUnderstood);
        }
        self.here_documents.push(HereDocument { last_line, skips_tabs });
        Ok(())
    }

    fn quoted_part(&mut self, quote: u8, into: &mut Vec<u8>) -> Scan<()> {
        loop {
            let byte = self.peek().ok_or(NotUnderstood)?;
            self.at += 1;
            match byte {
                _ if byte == quote => return Ok(()),
                b'\\' | b'$' | b'`' if quote == b'"' => return Err(NotUnderstood),
                _ => into.push(byte),
            }
        }
    }

    /// Skips a line feed, and the texts of the here-documents of its line.
    pub(super) fn line_feed(&mut self) -> Scan<()> {
        self.at += 1;
        for document in std::mem::take(&mut self.here_documents) {
            while !self.is_last_line(&document)? {}
        }
        Ok(())
    }

    /// Skips a line. The last line must be there.
    fn is_last_line(&mut self, document: &HereDocument) -> Scan<bool> {
        if self.at >= self.text.len() {
            return Err(NotUnderstood);
        }
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = &rest[..length];
        let tabs = line.iter().take_while(|byte| document.skips_tabs && **byte == b'\t').count();
        let is_last = line[tabs..] == document.last_line[..];
        self.at = (self.at + length + 1).min(self.text.len());
        Ok(is_last)
    }
}

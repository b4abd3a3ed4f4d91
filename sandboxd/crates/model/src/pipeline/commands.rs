//! Lists of commands, compound commands and simple ones.

use super::scanner::{End, NotUnderstood, Pipeline, Scan, Scanner, StageText, ends_word};

/// What stands between two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Pipe,
    AndOr,
    Background,
    Sequence,
}

/// Words that no command begins with.
const NO_COMMANDS: [&[u8]; 10] =
    [b"then", b"elif", b"else", b"fi", b"do", b"done", b"esac", b"}", b"in", b"coproc"];

/// Operators of redirections, each before its beginnings.
const REDIRECTIONS: [&str; 10] = ["&>>", "&>", "<<<", "<>", "<&", "<", ">>", ">|", ">&", ">"];

impl Scanner<'_> {
    /// Skips blanks and continued lines.
    pub(super) fn blanks(&mut self) {
        while self.take(" ") || self.take("\t") || self.take("\\\n") {}
    }

    /// Skips blanks and a comment.
    fn blanks_and_comment(&mut self) {
        self.blanks();
        if self.peek() == Some(b'#') {
            let rest = &self.text[self.at..];
            self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        }
    }

    /// Skips blanks, comments and line feeds.
    pub(super) fn blanks_and_lines(&mut self) -> Scan<()> {
        loop {
            self.blanks_and_comment();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.line_feed()?;
        }
    }

    /// Skips a list of commands and what ends it.
    pub(super) fn list(&mut self, end: End) -> Scan<()> {
        loop {
            self.blanks_and_lines()?;
            if self.at_end(end)? {
                return Ok(());
            }
            self.pipeline()?;
        }
    }

    /// Skips the end of a list if it is next. The words of `End::Words` are not skipped.
    fn at_end(&mut self, end: End) -> Scan<bool> {
        match (end, self.peek()) {
            (End::Script, None) => Ok(true),
            (_, None) => Err(NotUnderstood),
            (End::Parenthesis, Some(b')')) => {
                if !self.here_documents.is_empty() {
                    return Err(NotUnderstood);
                }
                self.at += 1;
                Ok(true)
            }
            (End::Words(words), _) => Ok(self.is_word(words)),
            (End::Clause, _) => {
                Ok(self.take(";;&") || self.take(";;") || self.take(";&") || self.is_word(&["esac"]))
            }
            _ => Ok(false),
        }
    }

    fn is_word(&self, words: &[&str]) -> bool {
        self.peek_plain_word().is_some_and(|next| words.iter().any(|word| word.as_bytes() == next))
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.is_word(&[word]) && self.take(word)
    }

    /// Skips a pipeline and the operator after it.
    fn pipeline(&mut self) -> Scan<()> {
        let mut stages = Vec::new();
        loop {
            self.prefix();
            let begin = self.at;
            self.nested(Self::command)?;
            let end = self.at;
            let operator = self.operator()?;
            let next = (operator == Operator::Pipe).then_some(self.at);
            stages.push(StageText { text: begin..begin + trimmed(&self.text[begin..end]), next });
            match operator {
                Operator::Pipe => self.blanks_and_lines()?,
                Operator::AndOr => {
                    self.blanks_and_lines()?;
                    if self.peek().is_none() {
                        return Err(NotUnderstood);
                    }
                }
                Operator::Background | Operator::Sequence => {}
            }
            if operator == Operator::Pipe {
                continue;
            }
            if self.depth == 0 {
                self.last = Some(Pipeline { stages, in_background: operator == Operator::Background });
            }
            return Ok(());
        }
    }

    /// Skips the words before a pipeline that do not belong to its first command.
    fn prefix(&mut self) {
        while self.take_word("!") || self.take_word("time") || self.take_word("-p") {
            self.blanks();
        }
    }

    /// Skips the operator after a command. The end of a list counts as one, and is not skipped.
    fn operator(&mut self) -> Scan<Operator> {
        self.blanks_and_comment();
        Ok(match self.peek() {
            Some(b'|') if self.take("||") => Operator::AndOr,
            Some(b'|') => {
                self.at += 1;
                self.take("&");
                Operator::Pipe
            }
            Some(b'&') if self.take("&&") => Operator::AndOr,
            Some(b'&') => {
                self.at += 1;
                Operator::Background
            }
            Some(b'\n') => {
                self.line_feed()?;
                Operator::Sequence
            }
            Some(b';') if !self.starts_with(";;") && !self.starts_with(";&") => {
                self.at += 1;
                Operator::Sequence
            }
            None | Some(b';' | b')') => Operator::Sequence,
            Some(_) => return Err(NotUnderstood),
        })
    }

    /// Skips one command. There must be one.
    fn command(&mut self) -> Scan<()> {
        if self.compound()? {
            return self.redirections();
        }
        if self.peek_plain_word().is_some_and(|word| NO_COMMANDS.contains(&word)) {
            return Err(NotUnderstood);
        }
        self.simple()
    }

    /// Skips a compound command or the definition of a function. Returns whether there is one.
    fn compound(&mut self) -> Scan<bool> {
        if self.take("((") {
            self.arithmetic(false)?;
            return Ok(true);
        }
        if self.take("(") {
            self.subshell()?;
            return Ok(true);
        }
        match self.peek_plain_word() {
            Some(b"{") => self.block("{", &["}"])?,
            Some(b"if") => self.branches()?,
            Some(b"while") => self.repeated("while")?,
            Some(b"until") => self.repeated("until")?,
            Some(b"for") => self.for_each("for")?,
            Some(b"select") => self.for_each("select")?,
            Some(b"case") => self.case()?,
            Some(b"[[") => self.condition()?,
            Some(b"function") => self.function()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn subshell(&mut self) -> Scan<()> {
        if !self.here_documents.is_empty() {
            return Err(NotUnderstood);
        }
        self.list(End::Parenthesis)
    }

    /// Skips a list between two words.
    fn block(&mut self, begin: &str, ends: &'static [&'static str]) -> Scan<()> {
        self.expect_word(begin)?;
        self.list(End::Words(ends))?;
        self.skip_plain_word();
        Ok(())
    }

    fn expect_word(&mut self, word: &str) -> Scan<()> {
        if self.take_word(word) { Ok(()) } else { Err(NotUnderstood) }
    }

    fn skip_plain_word(&mut self) {
        self.at += self.peek_plain_word().map_or(0, <[u8]>::len);
    }

    fn branches(&mut self) -> Scan<()> {
        self.expect_word("if")?;
        loop {
            self.list(End::Words(&["then", "elif", "else", "fi"]))?;
            if self.take_word("fi") {
                return Ok(());
            }
            self.skip_plain_word();
        }
    }

    fn repeated(&mut self, word: &str) -> Scan<()> {
        self.block(word, &["do"])?;
        self.list(End::Words(&["done"]))?;
        self.expect_word("done")
    }

    fn for_each(&mut self, word: &str) -> Scan<()> {
        self.expect_word(word)?;
        self.blanks();
        if self.take("((") {
            self.arithmetic(true)?;
        } else if !self.word()? {
            return Err(NotUnderstood);
        }
        self.blanks_and_lines()?;
        if self.take_word("in") {
            self.words()?;
        }
        self.take(";");
        self.blanks_and_lines()?;
        match self.is_word(&["{"]) {
            true => self.block("{", &["}"]),
            false => self.block("do", &["done"]),
        }
    }

    /// Skips words up to the end of the line or command.
    fn words(&mut self) -> Scan<()> {
        loop {
            self.blanks_and_comment();
            if !self.word()? {
                return Ok(());
            }
        }
    }

    fn case(&mut self) -> Scan<()> {
        self.expect_word("case")?;
        self.blanks();
        if !self.word()? {
            return Err(NotUnderstood);
        }
        self.blanks_and_lines()?;
        self.expect_word("in")?;
        loop {
            self.blanks_and_lines()?;
            if self.take_word("esac") {
                return Ok(());
            }
            self.patterns()?;
            self.list(End::Clause)?;
        }
    }

    /// Skips the patterns of a clause.
    fn patterns(&mut self) -> Scan<()> {
        self.take("(");
        loop {
            self.blanks();
            if !self.word()? {
                return Err(NotUnderstood);
            }
            self.blanks();
            if self.take(")") {
                return Ok(());
            }
            self.expect("|")?;
        }
    }

    /// Skips a condition in double brackets.
    fn condition(&mut self) -> Scan<()> {
        self.expect_word("[[")?;
        loop {
            let before = self.at;
            self.blanks();
            let is_new_word = self.at > before;
            match self.peek().ok_or(NotUnderstood)? {
                b'#' if is_new_word => return Err(NotUnderstood),
                b']' if is_new_word && self.take_word("]]") => return Ok(()),
                b'\n' => self.line_feed()?,
                byte if ends_word(byte) => self.at += 1,
                _ => drop(self.word()?),
            }
        }
    }

    fn function(&mut self) -> Scan<()> {
        self.expect_word("function")?;
        self.blanks();
        if !self.word()? {
            return Err(NotUnderstood);
        }
        self.blanks();
        if self.take("(") {
            self.blanks();
            self.expect(")")?;
        }
        self.function_body()
    }

    fn function_body(&mut self) -> Scan<()> {
        self.blanks_and_lines()?;
        if self.nested(Self::compound)? { Ok(()) } else { Err(NotUnderstood) }
    }

    /// Skips the words and redirections of a simple command, or the definition of a function.
    fn simple(&mut self) -> Scan<()> {
        let begin = self.at;
        let mut words = 0;
        loop {
            self.blanks();
            match self.peek() {
                Some(b'#') => break,
                Some(b'(') if words == 1 => {
                    self.at += 1;
                    self.blanks();
                    self.expect(")")?;
                    self.function_body()?;
                    return self.redirections();
                }
                _ if self.redirection()? => words += 2,
                _ if self.word()? => words += 1,
                _ => break,
            }
        }
        if self.at == begin { Err(NotUnderstood) } else { Ok(()) }
    }

    /// Skips redirections. A word that is none of their descriptors is an error of the script.
    fn redirections(&mut self) -> Scan<()> {
        loop {
            self.blanks();
            if self.peek_plain_word().is_some_and(is_descriptor) {
                self.skip_plain_word();
            }
            if !self.redirection()? {
                return Ok(());
            }
        }
    }

    /// Skips a redirection, if there is one.
    fn redirection(&mut self) -> Scan<bool> {
        if self.starts_with("<(") || self.starts_with(">(") {
            return Ok(false);
        }
        if self.starts_with("<<") && !self.starts_with("<<<") {
            self.at += 2;
            self.here_document()?;
            return Ok(true);
        }
        if !REDIRECTIONS.into_iter().any(|operator| self.take(operator)) {
            return Ok(false);
        }
        self.blanks();
        if self.word()? { Ok(true) } else { Err(NotUnderstood) }
    }
}

fn is_descriptor(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_digit) || (word.starts_with(b"{") && word.ends_with(b"}") && word.len() > 2)
}

/// Length of a command without blanks and continued lines at its end.
fn trimmed(command: &[u8]) -> usize {
    let mut length = command.trim_ascii_end().len();
    while command[length..].starts_with(b"\n") && command[..length].ends_with(b"\\") {
        length = command[..length - 1].trim_ascii_end().len();
    }
    length
}

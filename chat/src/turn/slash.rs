//! Commands that the user enters in the chat.

/// Maximum length of a user's command in characters.
pub const MAX_COMMAND_CHARS: usize = 8000;

/// Returns the command of `/bash <command>` or `bash: <command>`, of any length. Returns `None` for other text.
pub fn command_of(text: &str) -> Option<&str> {
    let text = text.trim();
    // Both prefixes have the same length.
    let (word, rest) = text.split_at_checked("/bash".len())?;
    // A phone starts with a capital letter. `/bashful` is not a command.
    let is_command = word.eq_ignore_ascii_case("bash:")
        || word.eq_ignore_ascii_case("/bash") && rest.starts_with(char::is_whitespace);
    let command = is_command.then_some(rest)?.trim();
    (!command.is_empty()).then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_the_text_after_its_prefix() {
        assert_eq!(command_of("/bash ls -l"), Some("ls -l"));
        assert_eq!(
            command_of("  /bash\nfor i in 1; do\n echo $i\ndone\n"),
            Some("for i in 1; do\n echo $i\ndone")
        );
        assert_eq!(command_of("Bash: echo hi"), Some("echo hi"));
        assert_eq!(command_of("/Bash ls"), Some("ls"));
        assert_eq!(command_of("bash:echo hi"), Some("echo hi"));
        for text in ["/bash", "/bash  ", "/bashful day", "bash:", "use bash: ls", "", "bas", "bäsh: x"] {
            assert_eq!(command_of(text), None, "{text:.40}");
        }
    }
}

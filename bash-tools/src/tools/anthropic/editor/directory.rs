//! Directory listings of the editor: two levels, without hidden entries.

use std::fmt::Write as _;

use output_text::Keep;
use tokio_util::sync::CancellationToken;

use crate::tools::bash::{self, quoted};
use crate::tools::output::Parts;
use crate::tools::{Error, OutputLimits, Result, Toolkit};

/// Maximum number of entries.
const MAX_ENTRIES: usize = 500;

/// Maximum number of characters of all names.
const MAX_CHARS: usize = 4 * 1024 * 1024;

/// Exit code for a path that is not a directory.
const NO_DIRECTORY: i32 = 66;

/// Exit code of `find` if some directories could not be read.
const NOT_EVERYWHERE: i32 = 1;

impl Toolkit {
    /// Lists a directory. `None` if the path is not one.
    pub(super) async fn entries(&self, path: &str) -> Result<Option<String>> {
        let limits = self.limits();
        let parts = Parts::new(Keep::Head, OutputLimits { max_stdout_chars: MAX_CHARS, ..limits.output });
        let script = script_of(path);
        let listed =
            bash::whole(self.start_script(script), limits.timeout, parts, CancellationToken::new()).await?;
        match listed.exit_code {
            NO_DIRECTORY => Ok(None),
            0 => Ok(Some(shown(&listed.stdout, None))),
            NOT_EVERYWHERE if !listed.stdout.is_empty() => {
                Ok(Some(shown(&listed.stdout, listed.stderr.lines().next())))
            }
            _ => {
                let why = listed.stderr.trim().lines().next_back().unwrap_or("unknown reason").to_owned();
                Err(Error::bad_input("path", format!("names a directory that cannot be read: {why}")))
            }
        }
    }
}

/// Names end with NUL, because no name contains it. Directory names have a slash before it,
/// so that their entries come next.
fn script_of(path: &str) -> String {
    // `cd` would interpret a path that begins with a dash.
    let path = quoted(&if path.starts_with('/') { path.to_owned() } else { format!("./{path}") });
    format!(
        "[ -d {path} ] || exit {NO_DIRECTORY}\n\
         cd -- {path} || exit\n\
         find . -mindepth 1 -maxdepth 2 -name '.?*' -prune -o \\( -type d -printf '%P/\\0' -o -printf '%P\\0' \\) \
         | LC_ALL=C sort -z | sed -zn '1,{}p'\n\
         for code in \"${{PIPESTATUS[@]}}\"; do [ \"$code\" = 0 ] || exit \"$code\"; done\n",
        MAX_ENTRIES + 1
    )
}

fn shown(listed: &str, error: Option<&str>) -> String {
    let mut entries: Vec<String> = listed.split_terminator('\0').map(entry).collect();
    let is_cut = entries.len() > MAX_ENTRIES;
    entries.truncate(MAX_ENTRIES);
    let mut text = entries.join("\n");
    if entries.is_empty() {
        text.push_str("[the directory has no visible entries]");
    }
    if is_cut {
        write!(text, "\n[only the first {MAX_ENTRIES} entries are shown]").ok();
    }
    if let Some(error) = error {
        write!(text, "\n[some entries could not be read: {error}]").ok();
    }
    text
}

/// Writes any name as one line.
fn entry(name: &str) -> String {
    name.chars().fold(String::new(), |mut line, c| {
        if c.is_control() {
            line.extend(c.escape_default())
        } else {
            line.push(c)
        }
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_shown_on_one_line() {
        assert_eq!(shown("a b\0d/\0e\nf\t\0", None), "a b\nd/\ne\\nf\\t");
        assert_eq!(shown("a\0", Some("why")), "a\n[some entries could not be read: why]");
        assert!(shown("", None).contains("no visible entries"));
        let many: String = (0..=MAX_ENTRIES).map(|name| format!("{name}\0")).collect();
        assert!(shown(&many, None).ends_with("\n499\n[only the first 500 entries are shown]"));
    }
}

//! Skills: instructions in files named SKILL.md, which the image and the workspace may have.
//!
//! A skill is data of the sandbox, like any other file. So it is returned when a model asks for it, and is never part
//! of a tool's description.

use std::collections::HashSet;

use output_text::cleaned;
use sandbox_api::SandboxId;
use sandbox_api::command::{EndReason, OutputOptions, RunCommand, StartCommand};
use uuid::Uuid;

use crate::toolbox::Toolbox;
use crate::{Error, Reply, input, output};

/// Prints each skill: a line with the boundary and its path, and the beginning of the file. As it is, because secret values
/// are replaced only in a text. `$1` is the maximum number of skills, `$2` the maximum number of bytes of each, and `$3` the
/// boundary, which no file knows. The workspace comes first, so its skills replace those of the image.
const FIND: &str = r#"
shopt -s nullglob
for file in {,.agents/,.claude/}skills/*/SKILL.md /usr/share/skills/*/SKILL.md /usr/local/share/skills/*/SKILL.md; do
  [[ -f $file && $file != *$'\n'* ]] || continue
  (($1 > found)) || break
  found=$((found + 1))
  printf '\n%s %s\n' "$3" "$file"
  head -c "$2" -- "$file"
done
exit 0"#;

/// Prints the size of a file in bytes on a line, and its beginning.
const READ: &str = r#"stat -Lc %s -- "$1" && head -c "$2" -- "$1""#;

/// Maximum number of skills, and of bytes that are read of each for the list.
const MAX_SKILLS: usize = 64;
const MAX_HEAD_BYTES: usize = 4096;

/// Maximum size of a skill in bytes.
const MAX_SKILL_BYTES: usize = 64 * 1024;

/// How many more bytes are printed than shown: the length of the longest secret value. One that begins in what is shown is
/// then complete, and is replaced.
const MORE_BYTES: usize = 4096;

/// Time limit of a search.
const SEARCH_MS: u64 = 10_000;

/// Maximum length of a name and of a description, in characters. With them, a list is below the 700 KiB of a result.
const MAX_NAME_CHARS: usize = 100;
const MAX_DESCRIPTION_CHARS: usize = 1000;

/// A file that was found.
struct Found {
    path: String,
    text: String,
}

impl Toolbox {
    pub(crate) async fn skills(&self, sandbox: &SandboxId, input: input::Skills) -> Result<Reply, Error> {
        let found = self.find_skills(sandbox).await?;
        let Some(name) = input.name else {
            let skills: Vec<_> = found.iter().map(skill).collect();
            let lines = skills.iter().map(|skill| format!("{}: {}", skill.name, skill.description));
            let text = match lines.collect::<Vec<_>>() {
                lines if lines.is_empty() => "There are no skills.".to_owned(),
                lines => lines.join("\n"),
            };
            return Ok(Reply::new(text, &output::Skills { skills, content: None }));
        };
        let Some(found) = found.iter().find(|found| skill(found).name == name) else {
            let problem = format!(
                "must be the name of a skill, not `{name}`: call `skills` without `name` to list them"
            );
            return Err(Error::Argument { field: "name", problem });
        };
        let most = (MAX_SKILL_BYTES + MORE_BYTES).to_string();
        let printed = self.print(sandbox, READ, &[&found.path, &most]).await?;
        let (size, content) = printed.split_once('\n').unwrap_or_default();
        let is_cut =
            content.len() > MAX_SKILL_BYTES || size.parse().is_ok_and(|size: usize| size > MAX_SKILL_BYTES);
        let content = text(beginning(content, MAX_SKILL_BYTES));
        let cut = match is_cut {
            false => String::new(),
            true => format!("\n[only the first {MAX_SKILL_BYTES} bytes are shown]"),
        };
        let text =
            format!("{}{cut}\n[files of this skill are in {}]", content.trim_end(), folder(&found.path));
        Ok(Reply::new(text, &output::Skills { skills: vec![skill(found)], content: Some(content) }))
    }

    /// Finds skills, each with its beginning. Of several with one name, the first counts.
    async fn find_skills(&self, sandbox: &SandboxId) -> Result<Vec<Found>, Error> {
        let limits = [MAX_SKILLS, MAX_HEAD_BYTES + MORE_BYTES].map(|limit| limit.to_string());
        let boundary = Uuid::new_v4().simple().to_string();
        let printed = self.print(sandbox, FIND, &[&limits[0], &limits[1], &boundary]).await?;
        let mut found: Vec<Found> = found_in(&printed, &boundary);
        let mut names = HashSet::new();
        found.retain(|found| names.insert(skill(found).name));
        Ok(found)
    }

    /// Runs a script of this file, and returns what it prints.
    async fn print(&self, sandbox: &SandboxId, script: &str, args: &[&str]) -> Result<String, Error> {
        let args = ["-c", script, "skills"].into_iter().chain(args.iter().copied()).map(str::to_owned);
        let command = StartCommand {
            cmd: Some("bash".into()),
            args: Some(args.collect()),
            timeout_ms: Some(SEARCH_MS),
            ..StartCommand::default()
        };
        let output =
            OutputOptions { keep: Some("head".into()), max_chars: Some(1_000_000), max_tokens: None };
        let request = RunCommand { command, output: Some(output) };
        let ran = self.client.run_to_end(sandbox, &request).await?;
        if ran.reason != EndReason::Exited || ran.exit_code != 0 {
            return Err(Error::Skills { exit_code: ran.exit_code });
        }
        Ok(ran.stdout)
    }
}

/// The skills in what [`FIND`] prints.
fn found_in(printed: &str, boundary: &str) -> Vec<Found> {
    let found = |part: &str| {
        let (path, printed) = part.split_once('\n')?;
        Some(Found { path: path.to_owned(), text: text(beginning(printed, MAX_HEAD_BYTES)) })
    };
    printed.split(&format!("\n{boundary} ")).skip(1).filter_map(found).collect()
}

/// At most as many bytes of a text, up to the end of a character.
fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// A text without escape sequences and control characters.
fn text(printed: &str) -> String {
    cleaned(&printed.replace("\r\n", "\n")).into_owned()
}

fn folder(path: &str) -> &str {
    path.strip_suffix("/SKILL.md").unwrap_or(path)
}

/// Describes a skill by the fields `name` and `description` at its beginning. Without a name, its folder is the name.
fn skill(found: &Found) -> output::Skill {
    let field = |name| field(&found.text, name).filter(|value| !value.is_empty());
    let folder = folder(&found.path);
    let description = field("description").unwrap_or_default();
    let name = field("name").unwrap_or_else(|| folder.rsplit('/').next().unwrap_or_default().to_owned());
    output::Skill {
        name: name.chars().take(MAX_NAME_CHARS).collect(),
        description: description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
        folder: folder.to_owned(),
    }
}

/// A field of the front matter: the lines between two lines of `---` at the start. A value may continue on lines that
/// are indented.
fn field(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines();
    (lines.next()?.trim_end() == "---").then_some(())?;
    let mut lines = lines.take_while(|line| line.trim_end() != "---");
    let first = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim();
    let rest = lines.take_while(|line| line.starts_with([' ', '\t'])).map(str::trim);
    // In YAML, `>` and `|` say that the value is on the following lines.
    let first = if first.starts_with(['>', '|']) { "" } else { first.trim_matches(['"', '\'']) };
    let value: Vec<&str> = std::iter::once(first).chain(rest).filter(|part| !part.is_empty()).collect();
    Some(value.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(path: &str, text: &str) -> (String, String) {
        let skill = skill(&Found { path: path.into(), text: text.into() });
        (skill.name, skill.description)
    }

    #[test]
    fn a_skill_is_described_by_its_front_matter() {
        let text =
            "---\nname: charts\nlicense: MIT\ndescription: \"Draws charts\"\n---\n# Charts\nname: other\n";
        assert_eq!(described("skills/x/SKILL.md", text), ("charts".into(), "Draws charts".into()));
        let folded = "---\r\ndescription: >\r\n  Draws\r\n  charts\r\nname: c\r\n---\r\n";
        assert_eq!(described("skills/x/SKILL.md", folded), ("c".into(), "Draws charts".into()));
    }

    #[test]
    fn a_skill_without_front_matter_is_named_by_its_folder() {
        for text in ["# Charts", "", "---\nname:\n---\n", "name: no\n---\n"] {
            assert_eq!(
                described("/usr/share/skills/charts/SKILL.md", text),
                ("charts".into(), String::new())
            );
        }
    }

    #[test]
    fn control_characters_and_long_names_are_not_passed_on() {
        assert_eq!(super::text("a\x1b[31mb\x01\n\r\n"), "ab\n\n");
        let text = format!("---\nname: {}\n---\n", "n".repeat(4000));
        assert_eq!(described("skills/x/SKILL.md", &text).0.len(), MAX_NAME_CHARS);
    }

    #[test]
    fn a_path_may_have_any_character_but_a_line_feed() {
        let found = found_in("\n-- skills/a\tb/SKILL.md\n# X\n-- c\n", "--");
        let found: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.text.as_str())).collect();
        assert_eq!(found, [("skills/a\tb/SKILL.md", "# X"), ("c", "")]);
        assert!(found_in("", "--").is_empty() && found_in("\n-- cut off", "--").is_empty());
    }
}

//! Commands that read a repository.

use sandbox_api::command::{EndReason, OutputOptions};
use sandbox_api::repository::RunInRepository;

use crate::bash::text::{add_line, both, ending};
use crate::bash::{DEFAULT_TIMEOUT, MAX_STDOUT_CHARS};
use crate::kept::requested_chars;
use crate::toolbox::{Call, Toolbox};
use crate::{Error, KeptPart, Reply, input, output};

impl Toolbox {
    /// Runs a command in a repository. A call that is cancelled ends the command.
    pub(crate) async fn repository_bash(
        &self,
        input: input::RepositoryBash,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let input::RepositoryBash { repository, git_ref, version, command, timeout_ms, output } = input;
        let request = RunInRepository {
            repository,
            git_ref,
            version,
            command,
            timeout_ms: timeout_ms.or(Some(DEFAULT_TIMEOUT.as_millis() as u64)),
            // What the commands of another user have left must not be seen.
            session_key: Some(self.namespace().as_str().to_owned()),
            output: Some(options(output.unwrap_or_default())?),
        };
        let ran = tokio::select! {
            biased;
            // Dropping the request ends the command.
            () = call.cancel.cancelled() => return Err(Error::Cancelled),
            ran = self.client.run_in_repository(&request) => output::RepositoryResult::from(ran?),
        };
        Ok(Reply::new(text_of(&ran), &ran))
    }
}

fn options(part: input::OutputPart) -> Result<OutputOptions, Error> {
    let max_chars = requested_chars(part.max_chars, part.max_tokens, MAX_STDOUT_CHARS)?;
    let keep = part.keep.map(|keep| {
        match keep {
            KeptPart::Head => "head",
            KeptPart::Tail => "tail",
            KeptPart::Both => "both",
        }
        .to_owned()
    });
    Ok(OutputOptions { keep, max_chars: Some(max_chars as u64), max_tokens: None })
}

/// The result for a model that reads text: the output, how the command ended if that is not obvious, and what is missing.
fn text_of(result: &output::RepositoryResult) -> String {
    let mut text = both(&result.stdout, &result.stderr);
    if result.exit_code != 0 || result.reason != EndReason::Exited || text.is_empty() {
        add_line(&mut text, &ending(result.exit_code, Some(result.reason), None));
    }
    let version = result.resolved_version.as_deref().map(|version| format!(", version {version}"));
    let commit = format!("[{} at {}{}]", result.repository, result.resolved_ref, version.unwrap_or_default());
    add_line(&mut text, &commit);
    for warning in &result.warnings {
        let missing = match warning.as_str() {
            "submodules" => "the directories of submodules are empty",
            "lfs" => "the files of Git LFS are pointers",
            "skipped" => "special and unreadable files are missing",
            other => other,
        };
        add_line(&mut text, &format!("[{missing}]"));
    }
    text
}

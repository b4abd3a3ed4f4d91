//! The stages of a pipeline in a result.

use output_text::{Excerpt, Keep, Shown};
use sandbox_api::command::PipelineStage;

use crate::output;

/// Maximum number of characters of what all stages of a pipeline have written.
const MAX_CHARS: usize = 8_000;

/// Maximum number of characters of what one stage has written.
const MAX_STAGE_CHARS: usize = 2_000;

/// Maximum number of characters of a stage's command.
const COMMAND_CHARS: usize = 200;

/// Shortens stages for a result.
pub(crate) fn shown(stages: Vec<PipelineStage>) -> Vec<output::Stage> {
    let max_chars = MAX_STAGE_CHARS.min(MAX_CHARS / stages.len().max(1));
    stages.into_iter().map(|stage| shortened(stage, max_chars)).collect()
}

fn shortened(stage: PipelineStage, max_chars: usize) -> output::Stage {
    let PipelineStage { command, exit_code, stdout, stdout_bytes, truncated } = stage;
    let beginning = stdout.map(|stdout| beginning(&stdout, max_chars));
    let is_cut = beginning.as_ref().is_some_and(|shown| !shown.omitted.is_nothing());
    output::Stage {
        command: command.chars().take(COMMAND_CHARS).collect(),
        exit_code,
        stdout: beginning.map(|shown| shown.head),
        stdout_bytes,
        truncated: truncated || is_cut,
    }
}

fn beginning(text: &str, max_chars: usize) -> Shown {
    let mut excerpt = Excerpt::new(Keep::Head, max_chars);
    excerpt.push(text.as_bytes());
    excerpt.finish();
    excerpt.shown()
}

/// A stage for a model that reads text.
pub(crate) fn text(stage: &output::Stage) -> String {
    let code =
        stage.exit_code.map_or_else(|| "exit code unknown".to_owned(), |code| format!("exit code {code}"));
    let command = &stage.command;
    let Some((stdout, bytes)) = stage.stdout.as_ref().zip(stage.stdout_bytes) else {
        return format!("[stage `{command}`: {code}]");
    };
    let begins = if stage.truncated { ", which begin" } else { "" };
    format!("[stage `{command}`: {code}, {bytes} bytes{begins}:]\n{}", stdout.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(command: &str, stdout: Option<&str>) -> PipelineStage {
        PipelineStage {
            command: command.into(),
            exit_code: Some(0),
            stdout: stdout.map(str::to_owned),
            stdout_bytes: stdout.map(|text| text.len() as u64),
            truncated: false,
        }
    }

    #[test]
    fn stages_are_shown_with_their_output() {
        let shown = shown(vec![stage("seq 2", Some("1\n2\n")), stage("tail -1", None)]);
        let text: Vec<_> = shown.iter().map(text).collect();
        assert_eq!(text, ["[stage `seq 2`: exit code 0, 4 bytes:]\n1\n2", "[stage `tail -1`: exit code 0]"]);
    }

    #[test]
    fn the_output_of_all_stages_is_bounded() {
        let long = "line\n".repeat(5_000);
        let shown = shown(vec![stage(&"x".repeat(1_000), Some(&long)); 32]);
        let chars: usize = shown.iter().map(|stage| stage.stdout.as_ref().unwrap().chars().count()).sum();
        assert!(chars <= MAX_CHARS && shown.iter().all(|stage| stage.truncated), "{chars}");
        assert_eq!(shown[0].command.len(), COMMAND_CHARS);
    }
}

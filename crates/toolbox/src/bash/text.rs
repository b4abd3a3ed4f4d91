//! The result of a command as text.

use sandbox_api::command::EndReason;

use crate::{output, stages};

/// The result for a model that reads text: the output, and how the command ended if that is not obvious.
pub(super) fn text_of(result: &output::CommandResult) -> String {
    let mut text = both(&result.stdout, &result.stderr);
    if let Some(trace) = &result.trace {
        end_line(&mut text);
        text.push_str("[trace]\n");
        text.push_str(trace);
    }
    let command = &result.command_id;
    let exceeded = result.limit_exceeded.as_ref();
    let exceeded = exceeded.map(|it| format!("[the limit of {} {} was exceeded]", it.value, it.limit));
    let violation = result.read_only_violation.as_ref();
    let violation = violation.map(|it| {
        format!(
            "[the workspace is read-only for this command: `{}` of {} was refused]",
            it.operation, it.path
        )
    });
    let ending = match (result.exit_code, result.reason) {
        (None, _) => Some(format!("[{command} is still running: call bash_output for more]")),
        (Some(0), Some(EndReason::Exited)) if !text.is_empty() => None,
        (Some(code), reason) => Some(ending(code, reason, result.signal.as_deref())),
    };
    let denied = result.denied_hosts.iter();
    let denied = denied.map(|it| format!("[{} on port {} was denied: {}]", it.host, it.port, it.message));
    let stages = result.stages.iter().map(stages::text);
    for line in stages.chain(exceeded).chain(violation).chain(ending).chain(denied) {
        add_line(&mut text, &line);
    }
    text
}

/// Both outputs of a command.
pub(crate) fn both(stdout: &str, stderr: &str) -> String {
    let mut text = stdout.to_owned();
    if !stderr.is_empty() {
        end_line(&mut text);
        if !text.is_empty() {
            text.push_str("[stderr]\n");
        }
        text.push_str(stderr);
    }
    text
}

/// How a command ended.
pub(crate) fn ending(exit_code: i32, reason: Option<EndReason>, signal: Option<&str>) -> String {
    match (reason, signal) {
        (Some(EndReason::Timeout), _) => format!("[time limit exceeded, exit code {exit_code}]"),
        (Some(EndReason::Oom), _) => format!("[the sandbox ran out of memory, exit code {exit_code}]"),
        (Some(EndReason::Lost), _) => "[the command was lost: its sandbox was stopped]".to_owned(),
        (_, Some(signal)) => format!("[ended by {signal}, exit code {exit_code}]"),
        (_, None) => format!("[exit code {exit_code}]"),
    }
}

/// Adds a line after the text.
pub(crate) fn add_line(text: &mut String, line: &str) {
    end_line(text);
    text.push_str(line);
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(exit_code: Option<i32>, reason: Option<EndReason>, stdout: &str, stderr: &str) -> String {
        text_of(&output::CommandResult {
            command_id: "cmd_0123456789abcdef".parse().unwrap(),
            running: exit_code.is_none(),
            exit_code,
            reason,
            signal: None,
            duration_ms: None,
            stdout: stdout.into(),
            stderr: stderr.into(),
            trace: None,
            stages: Vec::new(),
            truncated: false,
            output_path: None,
            output_complete: None,
            denied_hosts: Vec::new(),
            limit_exceeded: None,
            read_only_violation: None,
        })
    }

    #[test]
    fn a_success_is_its_output() {
        let exited = Some(EndReason::Exited);
        assert_eq!(result(Some(0), exited, "a\n", ""), "a\n");
        assert_eq!(result(Some(0), exited, "", ""), "[exit code 0]");
        assert_eq!(result(Some(1), exited, "a", "b"), "a\n[stderr]\nb\n[exit code 1]");
        assert_eq!(result(Some(2), exited, "", "b\n"), "b\n[exit code 2]");
    }

    #[test]
    fn a_running_command_names_its_id() {
        let text = result(None, None, "so far", "");
        assert_eq!(text, "so far\n[cmd_0123456789abcdef is still running: call bash_output for more]");
    }

    #[test]
    fn an_end_by_the_daemon_is_explained() {
        assert!(result(Some(124), Some(EndReason::Timeout), "", "").contains("time limit"));
        assert!(result(Some(137), Some(EndReason::Oom), "", "").contains("out of memory"));
    }
}

//! Output of a command for the model and the UI. The toolbox has the form of a result and the ends of its streams.

use output_text::Head;

pub use toolbox::chat::{BashOutput, CANCELLED, OutputLimits, RUNNING, TIMED_OUT};
pub(super) use toolbox::chat::{Tails, notice};

/// Beginnings of both streams, for a single result at the end.
#[derive(Debug)]
pub(super) struct Heads {
    pub(super) stdout: Head,
    pub(super) stderr: Head,
}

impl Heads {
    pub(super) fn new(limits: OutputLimits) -> Self {
        Self { stdout: Head::new(limits.max_stdout_chars), stderr: Head::new(limits.max_stderr_chars) }
    }

    pub(super) fn at_end(mut self, exit_code: i32, notice: Option<&str>) -> BashOutput {
        let mut output = BashOutput {
            stdout: with_notice(&mut self.stdout, "stdout"),
            stderr: with_notice(&mut self.stderr, "stderr"),
            exit_code,
            stdout_truncated_chars: None,
            stderr_truncated_chars: None,
        };
        if let Some(notice) = notice {
            output.add_notice(notice);
        }
        output
    }
}

/// The text, followed by a notice about what is missing.
fn with_notice(head: &mut Head, stream: &str) -> String {
    head.finish();
    match head.dropped_chars() {
        0 => head.text().to_owned(),
        dropped => {
            format!("{}\n\n[{stream} truncated: {dropped} characters removed]", head.text().trim_end())
        }
    }
}

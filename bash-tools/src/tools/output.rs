//! Output of a command for the model and the UI. The toolbox has the form of a result and the parts of its streams.

use output_text::Part;

pub use toolbox::chat::{BashOutput, CANCELLED, OutputLimits, RUNNING, TIMED_OUT};
pub(super) use toolbox::chat::{Parts, notice};

/// A single result at the end, with notices about what is missing.
pub(super) fn whole(mut parts: Parts, exit_code: i32, notice: Option<&str>) -> BashOutput {
    let mut output = BashOutput {
        stdout: with_notice(&mut parts.stdout, "stdout"),
        stderr: with_notice(&mut parts.stderr, "stderr"),
        exit_code,
        stdout_truncated_chars: None,
        stderr_truncated_chars: None,
    };
    if let Some(notice) = notice {
        output.add_notice(notice);
    }
    output
}

/// The text, with a notice where something is missing.
fn with_notice(part: &mut Part, stream: &str) -> String {
    part.finish();
    let dropped = part.dropped_chars();
    let notice = format!("[{stream} truncated: {dropped} characters removed]");
    match (part.head(), part.tail()) {
        (head, "") if dropped > 0 => format!("{}\n\n{notice}", head.trim_end()),
        ("", tail) if dropped > 0 => format!("{notice}\n\n{tail}"),
        _ => part.text(),
    }
}

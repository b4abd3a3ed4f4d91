//! How often bash runs each command of a script. bash counts in the script's own shell, with a `DEBUG` trap, which a script
//! may replace.

use rustix::process::Signal;

/// Signal by which bash ends itself when a command of the script has run too often.
pub(crate) const LOOP_SIGNAL: Signal = Signal::VTALARM;

/// What bash reads before a script (BASH_ENV in bash(1)) to count how often it runs each command. `number` is the
/// descriptor of this text. The script gets the user's `BASH_ENV`, the same `$_` and the same `$?`.
pub(crate) fn counting_script(max: u32, number: i32, bash_env: Option<&str>) -> String {
    let restore = match bash_env {
        Some(path) => format!("BASH_ENV={}; [[ ! -r $BASH_ENV ]] || . \"$BASH_ENV\"", quoted(path)),
        None => "unset BASH_ENV".to_owned(),
    };
    let signal = LOOP_SIGNAL.as_raw();
    let code = 128 + signal;
    format!(
        "exec {number}<&-\n{restore}\ndeclare -A __sandbox_runs\nset -o functrace\n\
         trap '__sandbox_last=$_; __sandbox_at=$LINENO:$BASH_COMMAND; \
         __sandbox_run=$((${{__sandbox_runs[$__sandbox_at]:-0}}+1)); __sandbox_runs[$__sandbox_at]=$__sandbox_run; \
         [[ $__sandbox_run -le {max} ]] || {{ kill -{signal} $$; exit {code}; }}; : \"$__sandbox_last\"' DEBUG\n"
    )
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command as Program;

    use super::*;

    /// Exit code as a shell reports it, and standard output.
    fn run(script: &str, bash_env: Option<&str>) -> (i32, String) {
        use std::os::unix::process::ExitStatusExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("counting");
        std::fs::write(&path, counting_script(5, 9, bash_env)).unwrap();
        let done = Program::new("bash").args(["-c", script]).env("BASH_ENV", &path).output().unwrap();
        let status = done.status;
        let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap();
        (code, String::from_utf8_lossy(&done.stdout).into_owned())
    }

    #[test]
    fn bash_ends_a_script_that_runs_a_command_too_often() {
        for script in [
            "for i in {1..6}; do :; done; echo end",
            "while true; do :; done; echo end",
            "f() { :; }; for ((i = 0; i < 6; i++)); do f; done; echo end",
            "seq 6 | while read -r n; do :; done; echo end",
            "(for i in {1..6}; do :; done); echo end",
            "f() { f; }; f",
        ] {
            assert_eq!(run(script, None), (154, String::new()), "{script}");
        }
    }

    #[test]
    fn a_counted_script_runs_as_others_do() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("it's own");
        std::fs::write(&own, "OWN=1").unwrap();
        for script in [
            "for i in {1..5}; do echo $i; done",
            "echo a b; echo $_; false; echo $?; (exit 7); echo $?",
            "set -eu; f() { echo \"$1\"; return 0; }; f 'x]$(y)'; [[ a == a ]] && echo yes",
            "set -e; false; echo end",
            "echo ${OWN-none} ${BASH_ENV-none}; bash -c 'for i in {1..9}; do echo $i; done'",
            "trap 'echo bye' EXIT; echo hi; exit 3",
        ] {
            for bash_env in [None, own.to_str()] {
                let mut plain = Program::new("bash");
                plain.args(["-c", script]).env_remove("BASH_ENV");
                if let Some(path) = bash_env {
                    plain.env("BASH_ENV", path);
                }
                let plain = plain.output().unwrap();
                let expected =
                    (plain.status.code().unwrap(), String::from_utf8_lossy(&plain.stdout).into_owned());
                assert_eq!(run(script, bash_env), expected, "{script}");
            }
        }
    }
}

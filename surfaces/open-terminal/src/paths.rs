//! Paths of files, as clients write them.

use http::StatusCode;
use sandbox_api::WORKSPACE;

use crate::failure::Failure;

/// Directory of the output files of commands. It can be read.
const OUTPUTS: &str = "/vercel/sandbox/outputs";

/// Returns the absolute path without `.` and `..`. A relative path begins at `cwd`, and `~` is the workspace.
pub(crate) fn absolute(path: &str, cwd: &str) -> Result<String, Failure> {
    if path.contains('\0') {
        return Err(Failure::bad_request("a path must not contain NUL"));
    }
    let below_home = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let joined = match below_home {
        Some(rest) => format!("{WORKSPACE}{rest}"),
        None if path.starts_with('/') => path.to_owned(),
        None => format!("{cwd}/{path}"),
    };
    let mut parts = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Ok(format!("/{}", parts.join("/")))
}

/// Returns the absolute path of something that can be read: in the workspace, or an output file. The sandbox resolves
/// links.
pub(crate) fn readable(path: &str, cwd: &str) -> Result<String, Failure> {
    let path = absolute(path, cwd)?;
    if is_in(&path, WORKSPACE) || is_in(&path, OUTPUTS) { Ok(path) } else { Err(outside(&path)) }
}

/// Returns the absolute path of something in the workspace.
pub(crate) fn writable(path: &str, cwd: &str) -> Result<String, Failure> {
    let path = absolute(path, cwd)?;
    if is_in(&path, WORKSPACE) { Ok(path) } else { Err(outside(&path)) }
}

/// Last part of a path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the absolute path of an entry that the daemon named relative to the workspace.
pub(crate) fn of_entry(path: &str) -> String {
    match path {
        path if path.starts_with('/') => path.to_owned(),
        "" => WORKSPACE.to_owned(),
        path => format!("{WORKSPACE}/{path}"),
    }
}

/// Whether the workspace contains the path or is it.
pub(crate) fn is_in_workspace(path: &str) -> bool {
    is_in(path, WORKSPACE)
}

fn is_in(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn outside(path: &str) -> Failure {
    let shown: String = path.chars().take(200).collect();
    let detail =
        format!("`{shown}` is outside {WORKSPACE}: use run_command for files elsewhere in the sandbox");
    Failure::new(StatusCode::FORBIDDEN, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_resolved_against_the_working_directory() {
        let cwd = format!("{WORKSPACE}/src");
        for (path, expected) in [
            ("a", "src/a"),
            (".", "src"),
            ("../b/./c/", "b/c"),
            ("~/d", "d"),
            ("~e", "src/~e"),
            ("/vercel/sandbox/workspace//f", "f"),
        ] {
            assert_eq!(writable(path, &cwd).unwrap(), format!("{WORKSPACE}/{expected}"), "{path}");
        }
        assert_eq!(writable("~", &cwd).unwrap(), WORKSPACE);
    }

    #[test]
    fn a_path_outside_the_workspace_is_rejected() {
        for path in ["/etc/passwd", "../..", "../../../../..", "/vercel/sandbox/workspaces", "/", "a\0"] {
            assert!(writable(path, WORKSPACE).is_err() && readable(path, WORKSPACE).is_err(), "{path}");
        }
        let output = format!("{OUTPUTS}/cmd_0123456789abcdef.log");
        assert!(readable(&output, WORKSPACE).is_ok() && writable(&output, WORKSPACE).is_err());
    }
}

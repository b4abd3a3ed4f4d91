//! Queries the current version from the registry of packages, from within the sandbox.

use std::time::Duration;

use sandbox_api::SandboxId;
use sandbox_api::command::{CommandRan, RunCommand, StartCommand};
use sandbox_client::Client;

use super::pin::{Floating, is_version};
use super::unpinned::{Registry, Unpinned};

/// Time limit of the query.
const LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of characters of the reason for a failure.
const MAX_REASON_CHARS: usize = 300;

/// Returns the current version of the package. The name of the package is an argument or input of a program, and never
/// part of a script.
pub(super) async fn current(
    client: &Client,
    sandbox: &SandboxId,
    package: &Floating,
) -> Result<String, Unpinned> {
    if !package.can_resolve {
        return Err(package.error());
    }
    let command = match package.registry {
        Registry::Npm => question("npm", &["view", &package.given, "version", "--json"], None),
        Registry::Python => {
            let requirement = if package.given.contains('@') { &package.name } else { &package.given };
            let args = ["pip", "compile", "-", "--no-deps", "--no-header", "--no-annotate", "--quiet"];
            question("uv", &args, Some(requirement))
        }
    };
    let ran = client.run_to_end(sandbox, &RunCommand { command, output: None }).await;
    let ran = ran.map_err(|error| package.not_found(error.to_string()))?;
    if ran.exit_code != 0 {
        return Err(package.not_found(reason_of(&ran)));
    }
    let version = match package.registry {
        Registry::Npm => npm_version(&ran.stdout),
        Registry::Python => ran.stdout.trim().rsplit_once("==").map(|(_, version)| version.to_owned()),
    };
    let version = version.filter(|version| is_version(version, package.registry));
    version.ok_or_else(|| package.not_found("the registry names no version".into()))
}

/// The last line of a failed query's output, or its exit code.
fn reason_of(ran: &CommandRan) -> String {
    let line = ran.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
    match line {
        Some(line) => line.chars().take(MAX_REASON_CHARS).collect(),
        None => format!("exit code {}", ran.exit_code),
    }
}

fn question(program: &str, args: &[&str], stdin: Option<&str>) -> StartCommand {
    StartCommand {
        cmd: Some(program.to_owned()),
        args: Some(args.iter().map(|argument| (*argument).to_owned()).collect()),
        stdin: stdin.map(|text| format!("{text}\n")),
        timeout_ms: Some(LIMIT.as_millis() as u64),
        ..StartCommand::default()
    }
}

/// The version in the output of `npm view`: a text, or a list of texts for a range, the newest last.
fn npm_version(output: &str) -> Option<String> {
    match serde_json::from_str(output).ok()? {
        serde_json::Value::Array(versions) => Some(versions.last()?.as_str()?.to_owned()),
        serde_json::Value::String(version) => Some(version),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_taken() {
        assert_eq!(npm_version("\"1.2.3\"\n").as_deref(), Some("1.2.3"));
        assert_eq!(npm_version(r#"["1.2.3", "1.3.0"]"#).as_deref(), Some("1.3.0"));
        for wrong in ["", "{}", "[]", "[1]"] {
            assert_eq!(npm_version(wrong), None, "{wrong}");
        }
    }
}

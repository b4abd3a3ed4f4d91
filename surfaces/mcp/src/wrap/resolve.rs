//! Asks the registry of packages for the current version, from within the sandbox.

use std::time::Duration;

use sandbox_api::SandboxId;
use sandbox_api::command::{RunCommand, StartCommand};
use sandbox_client::Client;

use super::pin::{Floating, Unpinned, is_version};

/// Time limit of the question.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the version that the package has now. The name is an argument, so it cannot become a part of the command.
pub(super) async fn current(client: &Client, sandbox: &SandboxId, package: &Floating) -> Result<String, Unpinned> {
    if !package.can_resolve {
        return Err(package.error());
    }
    let args = ["view", &package.given, "version", "--json", "--fetch-retries=1"].map(str::to_owned);
    let command = StartCommand {
        cmd: Some("npm".into()),
        args: Some(args.to_vec()),
        timeout_ms: Some(LIMIT.as_millis() as u64),
        ..StartCommand::default()
    };
    let ran = client.run_to_end(sandbox, &RunCommand { command, output: None }).await;
    let ran = ran.ok().filter(|ran| ran.exit_code == 0).ok_or_else(|| package.error())?;
    last_version(&ran.stdout).ok_or_else(|| package.error())
}

/// The version in the output of `npm view`: a text, or a list of texts for a range, the newest last.
fn last_version(output: &str) -> Option<String> {
    let versions = match serde_json::from_str(output).ok()? {
        serde_json::Value::Array(versions) => versions.last()?.as_str()?.to_owned(),
        serde_json::Value::String(version) => version,
        _ => return None,
    };
    Some(versions).filter(|version| is_version(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_versions_are_taken() {
        assert_eq!(last_version("\"1.2.3\"\n").as_deref(), Some("1.2.3"));
        assert_eq!(last_version(r#"["1.2.3", "1.3.0"]"#).as_deref(), Some("1.3.0"));
        for wrong in ["", "{}", "\"latest\"", "[]", "\"1.2.3 --x\""] {
            assert_eq!(last_version(wrong), None, "{wrong}");
        }
    }
}

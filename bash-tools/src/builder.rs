//! Builds an app's tools from settings in code.
//!
//! The settings are converted to the section of a configuration file and checked as such, so all rules and messages
//! are in [`config`].

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;

use crate::app::{App, SetupError};
use crate::config::{self, BashTools, Environment, MIN_TOKEN_CHARS};
use crate::gates::Gates;
use crate::provider::{BadCredentials, Credentials, NetworkPolicy};

/// Settings of an app that uses neither a file nor environment variables. Unset values have the file's defaults,
/// except that workspaces start empty. [`App::builder`] creates a builder. [`build`](Self::build) reports all errors
/// at once.
#[derive(Debug, Clone)]
pub struct AppBuilder {
    /// Values by their keys in the section, in TOML syntax.
    values: BTreeMap<&'static str, String>,
    environment: Environment,
}

impl App {
    /// Returns a builder for settings in code, without a file or environment variables.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let token = "0123456789abcdef0123456789abcdef";
    /// let app = bash_tools::App::builder().sandboxd("http://127.0.0.1:8080", token).memory_mb(512).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> AppBuilder {
        AppBuilder::new()
    }
}

impl AppBuilder {
    fn new() -> Self {
        let environment = Environment {
            is_switched_on: true,
            admin_token: None,
            orchestrator_token: None,
            git_token: None,
            vercel: Err(BadCredentials::Missing),
        };
        Self { values: BTreeMap::new(), environment }
            .set("enabled", "true".into())
            .set("seed.mode", text("none"))
    }

    /// Uses sandboxes of the sandboxd at an `http` or `https` URL, with its token. White space around the token is
    /// removed, so the content of sandboxd's token file can be passed.
    pub fn sandboxd(mut self, url: &str, token: &str) -> Self {
        let token = token.trim();
        self.environment.orchestrator_token = (!token.is_empty()).then(|| token.to_owned().into());
        self.set("provider", text("docker")).set("docker.orchestrator_url", text(url))
    }

    /// Uses sandboxes at Vercel.
    pub fn vercel(mut self, credentials: Credentials) -> Self {
        self.environment.vercel = Ok(credentials);
        self.set("provider", text("vercel"))
    }

    /// Sets the network policy of sandboxd's sandboxes. Default: the public internet.
    pub fn network(self, network: &NetworkPolicy) -> Self {
        let allow: Vec<String> = network.allow.iter().map(|host| text(host)).collect();
        self.set("docker.network_mode", text(network.mode.as_str()))
            .set("docker.network_allow", array(&allow))
    }

    /// Sets the memory of a sandboxd sandbox in MiB, 256 to 16,384.
    pub fn memory_mb(self, memory_mb: u64) -> Self {
        self.set("docker.memory_mb", memory_mb.to_string())
    }

    /// Makes a checkpoint of a sandboxd sandbox after each command and each change of files, and keeps this many, 0 to 1000.
    /// Default: 0. See [`Toolkit::checkpoint`](crate::tools::Toolkit::checkpoint).
    pub fn checkpoints(self, keep: u32) -> Self {
        self.set("docker.checkpoints", keep.to_string())
    }

    /// Sets the number of processors of a sandbox, 1 to 8.
    pub fn vcpus(self, vcpus: u64) -> Self {
        self.set("sandbox.vcpus", vcpus.to_string())
    }

    /// Sets the runtime of the sandboxes' image: `node24` or `python3.13` in sandboxd, or any runtime of Vercel.
    pub fn runtime(self, runtime: &str) -> Self {
        self.set("sandbox.runtime", text(runtime))
    }

    /// Sets the ports that the model may expose, up to 4. Default: 3000.
    pub fn ports(self, ports: &[u16]) -> Self {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        self.set("sandbox.ports", array(&ports))
    }

    /// Sets the time limit of a command, 1 s to 300 s.
    pub fn command_timeout(self, timeout: Duration) -> Self {
        self.set("timeout_ms", timeout.as_millis().to_string())
    }

    /// Sets the idle time of a sandbox, 10 s to 6 h.
    pub fn idle_ttl(self, idle_ttl: Duration) -> Self {
        self.set("idle_ttl_ms", idle_ttl.as_millis().to_string())
    }

    /// Sets the maximum number of open sandboxes, 1 to 10.
    pub fn max_concurrent_sandboxes(self, sandboxes: usize) -> Self {
        self.set("max_concurrent_sandboxes", sandboxes.to_string())
    }

    /// Sets how many characters of each output of a command are kept, 200 to 200,000.
    pub fn max_output_chars(self, chars: usize) -> Self {
        self.set("max_stdout_chars", chars.to_string()).set("max_stderr_chars", chars.to_string())
    }

    /// Starts new workspaces as a clone of a repository, at an `https` URL without credentials.
    pub fn clone_from(self, url: &str) -> Self {
        self.set("seed.mode", text("git")).set("seed.git_url", text(url))
    }

    /// Starts new workspaces with the files of a directory, given as an absolute path. Secrets, `.git`, dependencies
    /// and files that `.gitignore` excludes are skipped.
    pub fn copy_from(self, directory: &str) -> Self {
        self.set("seed.mode", text("upload")).set("project_root", text(directory))
    }

    /// Makes [`gates`](Self::gates) admit every client with this token of at least 32 characters. Without it they
    /// admit only clients on this machine.
    pub fn lan(mut self, admin_token: impl Into<SecretString>) -> Self {
        self.environment.admin_token = Some(admin_token.into());
        self.set("access", text("lan"))
    }

    /// Sets trusted proxies, as addresses or ranges such as `10.0.0.0/8`. [`gates`](Self::gates) accept the client
    /// address that these report.
    pub fn trusted_proxies(self, proxies: &[&str]) -> Self {
        let proxies: Vec<String> = proxies.iter().map(|proxy| text(proxy)).collect();
        self.set("trusted_proxies", array(&proxies))
    }

    /// Builds the app. Must be called within a tokio runtime. Sends nothing yet.
    ///
    /// # Errors
    /// All errors in the settings, or a missing token for the provider.
    pub fn build(&self) -> Result<App, SetupError> {
        App::new(&self.tools()?, &self.environment)
    }

    /// Builds gates from the same settings, for an app that leaves the decision to them.
    ///
    /// # Errors
    /// All errors in the settings, or a token of [`lan`](Self::lan) that is too short.
    pub fn gates(&self) -> Result<Gates, SetupError> {
        let tools = self.tools()?;
        if tools.access == config::Access::Lan && self.environment.strong_admin_token().is_none() {
            return Err(SetupError::WeakToken { min_chars: MIN_TOKEN_CHARS });
        }
        Gates::new(Some(&tools), &self.environment).map_err(SetupError::Gates)
    }

    fn tools(&self) -> Result<BashTools, SetupError> {
        if !self.values.contains_key("provider") {
            return Err(SetupError::NoProvider);
        }
        let section: String =
            self.values.iter().map(|(key, value)| format!("app.bash_tools.{key} = {value}\n")).collect();
        let config = config::parse(&section).map_err(SetupError::settings)?;
        config.tools.ok_or(SetupError::NoProvider)
    }

    fn set(mut self, key: &'static str, value: String) -> Self {
        self.values.insert(key, value);
        self
    }
}

/// Formats a TOML basic string.
fn text(value: &str) -> String {
    let mut text = String::from('"');
    for char in value.chars() {
        match char {
            '"' | '\\' => text.extend(['\\', char]),
            char if char.is_control() => text.push_str(&format!("\\U{:08X}", u32::from(char))),
            char => text.push(char),
        }
    }
    text.push('"');
    text
}

fn array(values: &[String]) -> String {
    format!("[{}]", values.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::{Provider, Seed};
    use crate::provider::NetworkMode;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn sandboxd() -> AppBuilder {
        AppBuilder::new().sandboxd("http://127.0.0.1:8080", TOKEN)
    }

    fn fault(builder: &AppBuilder) -> String {
        builder.tools().unwrap_err().to_string()
    }

    #[test]
    fn unset_values_have_the_files_defaults() {
        let file = "[app.bash_tools]\nenabled = true\nprovider = 'docker'\n[app.bash_tools.docker]\n\
                    orchestrator_url = 'http://127.0.0.1:8080'\n[app.bash_tools.seed]\nmode = 'none'\n";
        assert_eq!(sandboxd().tools().unwrap(), config::parse(file).unwrap().tools.unwrap());
    }

    #[test]
    fn set_values_are_used() {
        let network = NetworkPolicy::new(NetworkMode::Allowlist, ["a.example"]);
        let tools = sandboxd()
            .network(&network)
            .memory_mb(512)
            .checkpoints(20)
            .vcpus(4)
            .runtime("python3.13")
            .ports(&[8000, 5173])
            .command_timeout(Duration::from_secs(5))
            .idle_ttl(Duration::from_secs(60))
            .max_concurrent_sandboxes(3)
            .max_output_chars(300)
            .copy_from("/srv/\"project\"\n")
            .trusted_proxies(&["10.0.0.0/8"])
            .tools()
            .unwrap();
        let Provider::Docker(docker) = tools.provider else { panic!("{:?}", tools.provider) };
        assert_eq!((docker.network, docker.memory_mb, docker.checkpoints), (network, 512, Some(20)));
        let sandbox = tools.sandbox;
        assert_eq!(
            (sandbox.vcpus, sandbox.runtime.as_str(), sandbox.ports),
            (4, "python3.13", vec![8000, 5173])
        );
        assert_eq!((tools.command_timeout.as_secs(), tools.idle_ttl.as_secs()), (5, 60));
        assert_eq!(
            (tools.max_concurrent_sandboxes, tools.max_stdout_chars, tools.max_stderr_chars),
            (3, 300, 300)
        );
        assert_eq!(tools.trusted_proxies.len(), 1);
        let Seed::Upload(upload) = tools.seed else { panic!("{:?}", tools.seed) };
        assert_eq!(upload.root.to_str(), Some("/srv/\"project\"\n"));
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let wrong = sandboxd().vcpus(9).command_timeout(Duration::from_millis(1));
        let message = fault(&wrong);
        for wanted in [
            "app.bash_tools.sandbox.vcpus must be from 1 to 8 processors, not 9",
            "app.bash_tools.timeout_ms must be from 1000 to 300000 milliseconds, not 1",
        ] {
            assert!(message.contains(wanted), "{message}");
        }
        assert!(!message.contains("line "), "there is no file: {message}");
        assert!(fault(&AppBuilder::new()).contains("no sandbox provider"), "{}", fault(&AppBuilder::new()));
    }

    #[tokio::test]
    async fn a_missing_token_is_reported_readably() {
        for blank in ["", " \n"] {
            let error = AppBuilder::new().sandboxd("http://127.0.0.1:8080", blank).build().unwrap_err();
            // A `main` that returns the error prints its `Debug` form.
            for message in [error.to_string(), format!("{error:?}")] {
                assert!(message.starts_with("no token for sandboxd: "), "{message}");
                assert!(
                    message.contains("REMCOCHAT_ADMIN_TOKEN") && message.contains("AppBuilder::sandboxd"),
                    "{message}"
                );
            }
        }
        assert!(sandboxd().build().is_ok());
        let weak = sandboxd().lan("short").gates().unwrap_err().to_string();
        assert!(weak.contains("at least 32"), "{weak}");
        assert!(sandboxd().lan(TOKEN).gates().is_ok() && sandboxd().gates().is_ok());
    }

    proptest! {
        #[test]
        fn any_text_stays_one_value(odd in any::<String>()) {
            let tools = sandboxd().copy_from(&format!("/{}", odd.replace('\0', ""))).tools().unwrap();
            let Seed::Upload(upload) = tools.seed else { panic!("{:?}", tools.seed) };
            prop_assert_eq!(upload.root.to_str().unwrap(), format!("/{}", odd.replace('\0', "")));
        }
    }
}

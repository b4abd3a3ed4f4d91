//! An app's tools, put together in code.
//!
//! What is set here becomes the section that a file would have, and is checked as that is: the rules and their words are in
//! [`config`] alone.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;

use crate::app::{App, SetupError};
use crate::config::{self, BashTools, Environment, MIN_TOKEN_CHARS};
use crate::gates::Gates;
use crate::provider::{BadCredentials, Credentials, NetworkPolicy};

/// Settings of an app that has neither a file nor variables for them. What is not set has the file's default, except that
/// workspaces begin empty. [`App::builder`] makes one, and [`build`](Self::build) reports everything that is wrong at once.
#[derive(Debug, Clone)]
pub struct AppBuilder {
    /// By their keys in the section; the values as TOML writes them.
    values: BTreeMap<&'static str, String>,
    environment: Environment,
}

impl AppBuilder {
    pub(crate) fn new() -> Self {
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

    /// Sandboxes of the sandboxd at an `http` or `https` URL, with its token. Blanks around the token are not part of it, so the
    /// content of sandboxd's token file will do.
    pub fn sandboxd(mut self, url: &str, token: &str) -> Self {
        let token = token.trim();
        self.environment.orchestrator_token = (!token.is_empty()).then(|| token.to_owned().into());
        self.set("provider", text("docker")).set("docker.orchestrator_url", text(url))
    }

    /// Sandboxes at Vercel.
    pub fn vercel(mut self, credentials: Credentials) -> Self {
        self.environment.vercel = Ok(credentials);
        self.set("provider", text("vercel"))
    }

    /// What sandboxes of sandboxd may reach; the public internet if this is not called.
    pub fn network(self, network: &NetworkPolicy) -> Self {
        let allow: Vec<String> = network.allow.iter().map(|host| text(host)).collect();
        self.set("docker.network_mode", text(network.mode.as_str()))
            .set("docker.network_allow", array(&allow))
    }

    /// Memory of a sandbox of sandboxd in MiB, 256 to 16,384.
    pub fn memory_mb(self, memory_mb: u64) -> Self {
        self.set("docker.memory_mb", memory_mb.to_string())
    }

    /// Processors of a sandbox, 1 to 8.
    pub fn vcpus(self, vcpus: u64) -> Self {
        self.set("sandbox.vcpus", vcpus.to_string())
    }

    /// What the sandboxes' image must offer: `node24` or `python3.13` in sandboxd; whatever Vercel has.
    pub fn runtime(self, runtime: &str) -> Self {
        self.set("sandbox.runtime", text(runtime))
    }

    /// Ports whose servers the model may show, up to 4; 3000 if this is not called.
    pub fn ports(self, ports: &[u16]) -> Self {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        self.set("sandbox.ports", array(&ports))
    }

    /// How long a command may run, 1 s to 300 s.
    pub fn command_timeout(self, timeout: Duration) -> Self {
        self.set("timeout_ms", timeout.as_millis().to_string())
    }

    /// How long a sandbox may be idle, 10 s to 6 h.
    pub fn idle_ttl(self, idle_ttl: Duration) -> Self {
        self.set("idle_ttl_ms", idle_ttl.as_millis().to_string())
    }

    /// How many sandboxes the app may have at a time, 1 to 10.
    pub fn max_concurrent_sandboxes(self, sandboxes: usize) -> Self {
        self.set("max_concurrent_sandboxes", sandboxes.to_string())
    }

    /// How much of each output of a command is kept, 200 to 200,000 characters.
    pub fn max_output_chars(self, chars: usize) -> Self {
        self.set("max_stdout_chars", chars.to_string()).set("max_stderr_chars", chars.to_string())
    }

    /// New workspaces begin as a clone of a repository, at an `https` URL without a name and password.
    pub fn clone_from(self, url: &str) -> Self {
        self.set("seed.mode", text("git")).set("seed.git_url", text(url))
    }

    /// New workspaces begin with the files of a directory, an absolute path. Secrets, `.git`, dependencies and what `.gitignore`
    /// names stay out.
    pub fn copy_from(self, directory: &str) -> Self {
        self.set("seed.mode", text("upload")).set("project_root", text(directory))
    }

    /// Lets [`gates`](Self::gates) admit whoever has this token of at least 32 characters. Without it they admit whoever is on this
    /// machine.
    pub fn lan(mut self, admin_token: impl Into<SecretString>) -> Self {
        self.environment.admin_token = Some(admin_token.into());
        self.set("access", text("lan"))
    }

    /// Proxies whose word for a request's client [`gates`](Self::gates) believe: addresses, or ranges such as `10.0.0.0/8`.
    pub fn trusted_proxies(self, proxies: &[&str]) -> Self {
        let proxies: Vec<String> = proxies.iter().map(|proxy| text(proxy)).collect();
        self.set("trusted_proxies", array(&proxies))
    }

    /// The app. Must be called within a tokio runtime; nothing is sent yet.
    ///
    /// # Errors
    /// Everything that is wrong with the settings, or that there is no token for the provider.
    pub fn build(&self) -> Result<App, SetupError> {
        App::new(&self.tools()?, &self.environment)
    }

    /// The gates of the same settings, for an app that leaves it to them who has tools.
    ///
    /// # Errors
    /// Everything that is wrong with the settings, or that the token of [`lan`](Self::lan) is too short.
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

/// A basic string of TOML.
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
    fn what_is_not_set_has_the_file_s_default() {
        let file = "[app.bash_tools]\nenabled = true\nprovider = 'docker'\n[app.bash_tools.docker]\n\
                    orchestrator_url = 'http://127.0.0.1:8080'\n[app.bash_tools.seed]\nmode = 'none'\n";
        assert_eq!(sandboxd().tools().unwrap(), config::parse(file).unwrap().tools.unwrap());
    }

    #[test]
    fn what_is_set_holds() {
        let network = NetworkPolicy::new(NetworkMode::Allowlist, ["a.example"]);
        let tools = sandboxd()
            .network(&network)
            .memory_mb(512)
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
        assert_eq!((docker.network, docker.memory_mb), (network, 512));
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
    fn everything_that_is_wrong_is_told_at_once() {
        let wrong = sandboxd().vcpus(9).command_timeout(Duration::from_millis(1));
        let told = fault(&wrong);
        for wanted in [
            "app.bash_tools.sandbox.vcpus must be from 1 to 8 processors, not 9",
            "app.bash_tools.timeout_ms must be from 1000 to 300000 milliseconds, not 1",
        ] {
            assert!(told.contains(wanted), "{told}");
        }
        assert!(!told.contains("line "), "there is no file: {told}");
        assert!(fault(&AppBuilder::new()).contains("no provider"), "{}", fault(&AppBuilder::new()));
    }

    #[tokio::test]
    async fn a_missing_token_is_told_in_words() {
        for blank in ["", " \n"] {
            let error = AppBuilder::new().sandboxd("http://127.0.0.1:8080", blank).build().unwrap_err();
            // What `main` prints that returns it.
            for told in [error.to_string(), format!("{error:?}")] {
                assert!(told.starts_with("no token for sandboxd: "), "{told}");
                assert!(
                    told.contains("REMCOCHAT_ADMIN_TOKEN") && told.contains("AppBuilder::sandboxd"),
                    "{told}"
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
        fn no_text_is_more_than_a_value(odd in any::<String>()) {
            let tools = sandboxd().copy_from(&format!("/{}", odd.replace('\0', ""))).tools().unwrap();
            let Seed::Upload(upload) = tools.seed else { panic!("{:?}", tools.seed) };
            prop_assert_eq!(upload.root.to_str().unwrap(), format!("/{}", odd.replace('\0', "")));
        }
    }
}

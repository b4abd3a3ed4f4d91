//! The app's own settings, from the environment. `bash_tools::config` has the tools' settings.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use openidconnect::IssuerUrl;
use secrecy::SecretString;
use url::Url;

/// Settings of the app.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address to listen on. `CHAT_BIND`, default `127.0.0.1:3000`.
    pub bind: SocketAddr,
    /// Directory of the database. `CHAT_STATE_DIR`, default `/var/lib/sandboxd-chat`.
    pub state_dir: PathBuf,
    /// Host names of the app besides `localhost` and addresses. `CHAT_ALLOWED_HOSTS`, separated by commas.
    pub allowed_hosts: Vec<String>,
    /// Address at which browsers reach the app, if it is known. `CHAT_PUBLIC_URL`. With `https`, cookies are secure.
    pub public_url: Option<Url>,
    /// An identity provider, if there is one. `CHAT_OIDC_ISSUER`, which needs `CHAT_PUBLIC_URL` and `CHAT_OIDC_CLIENT_ID`.
    pub oidc: Option<OidcClient>,
    /// Domains of e-mail addresses whose people may join without an invitation. `CHAT_OIDC_ALLOWED_DOMAINS`.
    pub oidc_domains: Vec<String>,
    /// The models, in the order in which they are offered. The first is the default.
    pub models: Vec<ModelSettings>,
    /// Time after which a turn ends that no page watches. `CHAT_UNWATCHED_TURN_MINUTES`, 1 to 1440, default 30.
    pub unwatched_turns: Duration,
}

/// The app at an identity provider.
#[derive(Debug, Clone)]
pub struct OidcClient {
    /// URL of the issuer: `https`, or `http` on this machine.
    pub issuer: IssuerUrl,
    /// Id of the app at the provider. `CHAT_OIDC_CLIENT_ID`.
    pub client_id: String,
    /// File with the secret of the app, if it has one. `CHAT_OIDC_CLIENT_SECRET_FILE`.
    pub client_secret_file: Option<PathBuf>,
}

/// A model and its server.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// `openai/` or `anthropic/` and its name.
    pub id: String,
    /// Name at its provider.
    pub name: String,
    /// API that the model's server speaks.
    pub provider: ModelProvider,
    /// Base URL of the server.
    pub base: Url,
    /// API key, if the server requires one.
    pub key: Option<SecretString>,
}

/// API that a model's server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelProvider {
    /// OpenAI's chat completions, which most servers support.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
}

/// An error in the environment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} {problem}")]
pub struct Fault {
    /// The variable.
    pub name: &'static str,
    /// Rest of a sentence that begins with the variable.
    pub problem: &'static str,
}

const UNWATCHED: &str = "CHAT_UNWATCHED_TURN_MINUTES";
const UNWATCHED_MINUTES: u64 = 30;
const MAX_UNWATCHED_MINUTES: u64 = 24 * 60;
const OPENAI_BASE: &str = "CHAT_OPENAI_BASE_URL";
const ANTHROPIC_BASE: &str = "CHAT_ANTHROPIC_BASE_URL";

impl ModelProvider {
    /// Name in ids and stored answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// All errors in the environment.
    pub fn read(env: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let value = |name: &str| env(name).map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
        let bind = value("CHAT_BIND").unwrap_or_else(|| "127.0.0.1:3000".into());
        let bind = bind.parse().unwrap_or_else(|_| {
            faults.push(Fault {
                name: "CHAT_BIND",
                problem: "must be an address with a port, such as 127.0.0.1:3000",
            });
            SocketAddr::from(([127, 0, 0, 1], 3000))
        });
        let state_dir =
            PathBuf::from(value("CHAT_STATE_DIR").unwrap_or_else(|| "/var/lib/sandboxd-chat".into()));
        if !state_dir.is_absolute() {
            faults.push(Fault { name: "CHAT_STATE_DIR", problem: "must be an absolute path" });
        }
        let list = |name: &str| -> Vec<String> {
            let text = value(name).unwrap_or_default();
            text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect()
        };
        let mut models = Vec::new();
        for (provider, names, base_name, default, key_name, key) in [
            (
                ModelProvider::OpenAi,
                "CHAT_OPENAI_MODELS",
                OPENAI_BASE,
                "https://api.openai.com/v1",
                "CHAT_OPENAI_API_KEY_ENV",
                "OPENAI_API_KEY",
            ),
            (
                ModelProvider::Anthropic,
                "CHAT_ANTHROPIC_MODELS",
                ANTHROPIC_BASE,
                "https://api.anthropic.com",
                "CHAT_ANTHROPIC_API_KEY_ENV",
                "ANTHROPIC_API_KEY",
            ),
        ] {
            let text = value(base_name).unwrap_or_else(|| default.into());
            let base = match base_url(&text) {
                Some(base) => base,
                None => {
                    faults.push(Fault {
                        name: base_name,
                        problem: "must be an http or https URL without a name or password",
                    });
                    continue;
                }
            };
            let key = value(&value(key_name).unwrap_or_else(|| key.into())).map(SecretString::from);
            models.extend(list(names).into_iter().map(|name| ModelSettings {
                id: format!("{}/{name}", provider.name()),
                name,
                provider,
                base: base.clone(),
                key: key.clone(),
            }));
        }
        let mut allowed_hosts: Vec<String> =
            list("CHAT_ALLOWED_HOSTS").into_iter().map(|host| host.to_ascii_lowercase()).collect();
        let public_url = value("CHAT_PUBLIC_URL").map(|text| origin(&text));
        if public_url == Some(None) {
            faults.push(Fault {
                name: "CHAT_PUBLIC_URL",
                problem: "must be an http or https URL without a path",
            });
        }
        let public_url = public_url.flatten();
        allowed_hosts.extend(public_url.as_ref().and_then(Url::host_str).map(str::to_owned));
        let oidc = oidc(value, public_url.is_some(), &mut faults);
        let oidc_domains = list("CHAT_OIDC_ALLOWED_DOMAINS");
        let minutes = value(UNWATCHED).map_or(Ok(UNWATCHED_MINUTES), |text| text.parse());
        let minutes = minutes.ok().filter(|minutes| (1..=MAX_UNWATCHED_MINUTES).contains(minutes));
        if minutes.is_none() {
            faults.push(Fault { name: UNWATCHED, problem: "must be a number of minutes from 1 to 1440" });
        }
        let unwatched_turns = Duration::from_secs(60 * minutes.unwrap_or(UNWATCHED_MINUTES));
        if faults.is_empty() {
            Ok(Self {
                bind,
                state_dir,
                allowed_hosts,
                public_url,
                oidc,
                oidc_domains,
                models,
                unwatched_turns,
            })
        } else {
            Err(faults)
        }
    }
}

fn oidc(
    value: impl Fn(&str) -> Option<String>,
    has_public_url: bool,
    faults: &mut Vec<Fault>,
) -> Option<OidcClient> {
    let text = value("CHAT_OIDC_ISSUER")?;
    if !has_public_url {
        faults.push(Fault { name: "CHAT_PUBLIC_URL", problem: "is required with CHAT_OIDC_ISSUER" });
    }
    let client_id = value("CHAT_OIDC_CLIENT_ID");
    if client_id.is_none() {
        faults.push(Fault { name: "CHAT_OIDC_CLIENT_ID", problem: "is required with CHAT_OIDC_ISSUER" });
    }
    let is_local = |url: &Url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let issuer = IssuerUrl::new(text).ok();
    let issuer = issuer.filter(|issuer| issuer.url().scheme() == "https" || is_local(issuer.url()));
    if issuer.is_none() {
        faults.push(Fault { name: "CHAT_OIDC_ISSUER", problem: "must be an https URL" });
    }
    let client_secret_file = value("CHAT_OIDC_CLIENT_SECRET_FILE").map(PathBuf::from);
    Some(OidcClient { issuer: issuer?, client_id: client_id?, client_secret_file })
}

fn origin(text: &str) -> Option<Url> {
    base_url(text).filter(|url| url.path() == "/" && url.query().is_none() && url.fragment().is_none())
}

fn base_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.has_host();
    (matches!(url.scheme(), "http" | "https") && is_plain).then_some(url)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, Vec<Fault>> {
        Settings::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_defaults_are_localhost_and_no_model() {
        let settings = read(&[("CHAT_BIND", " ")]).unwrap();
        assert_eq!(settings.bind.to_string(), "127.0.0.1:3000");
        assert!(settings.models.is_empty() && settings.allowed_hosts.is_empty());
    }

    #[test]
    fn models_have_the_name_and_key_of_their_provider() {
        let settings = read(&[
            ("CHAT_OPENAI_BASE_URL", "http://ollama:11434/v1"),
            ("CHAT_OPENAI_MODELS", "llama3.2, qwen3:8b,"),
            ("CHAT_ANTHROPIC_MODELS", "claude"),
            ("CHAT_ANTHROPIC_API_KEY_ENV", "MY_KEY"),
            ("MY_KEY", "secret"),
            ("CHAT_ALLOWED_HOSTS", "Chat.lan, chat"),
        ])
        .unwrap();
        let ids: Vec<_> = settings.models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["openai/llama3.2", "openai/qwen3:8b", "anthropic/claude"]);
        assert!(settings.models[0].key.is_none());
        assert_eq!(settings.models[2].key.as_ref().unwrap().expose_secret(), "secret");
        assert_eq!(settings.allowed_hosts, ["chat.lan", "chat"]);
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn an_identity_provider_needs_its_client_and_the_public_url() {
        let names = |variables: &[(&str, &str)]| -> Vec<&str> {
            read(variables).unwrap_err().iter().map(|fault| fault.name).collect()
        };
        let issuer = ("CHAT_OIDC_ISSUER", "https://id.example");
        assert_eq!(names(&[issuer]), ["CHAT_PUBLIC_URL", "CHAT_OIDC_CLIENT_ID"]);
        let rest = [("CHAT_PUBLIC_URL", "https://chat.example"), ("CHAT_OIDC_CLIENT_ID", "chat")];
        let settings = read(&[&rest[..], &[issuer]].concat()).unwrap();
        assert_eq!(settings.oidc.unwrap().issuer.as_str(), "https://id.example");
        assert_eq!(settings.allowed_hosts, ["chat.example"]);
        for bad in ["http://id.example", "id.example", "ftp://id.example"] {
            assert_eq!(names(&[&rest[..], &[("CHAT_OIDC_ISSUER", bad)]].concat()), ["CHAT_OIDC_ISSUER"]);
        }
        for bad in ["https://chat.example/path", "https://user@chat.example", "chat.example"] {
            assert_eq!(names(&[("CHAT_PUBLIC_URL", bad)]), ["CHAT_PUBLIC_URL"], "{bad}");
        }
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let faults = read(&[
            ("CHAT_BIND", "localhost"),
            ("CHAT_STATE_DIR", "here"),
            ("CHAT_OPENAI_BASE_URL", "http://user:pass@x"),
            ("CHAT_ANTHROPIC_BASE_URL", "ftp://x"),
        ])
        .unwrap_err();
        let names: Vec<_> = faults.iter().map(|fault| fault.name).collect();
        assert_eq!(names, ["CHAT_BIND", "CHAT_STATE_DIR", OPENAI_BASE, ANTHROPIC_BASE]);
    }
}

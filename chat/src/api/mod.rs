//! The HTTP API of the page.

mod about;
mod account;
mod answer;
mod answering;
mod body;
mod caller;
mod changes;
mod chat_ref;
mod chats;
mod cookie;
mod error;
mod files;
mod guard;
mod identify;
mod oidc;
mod page;
mod places;
mod question;
mod resume;
mod routes;
mod sandbox;
mod server;
mod session;
mod terminal_socket;
mod terminals;
mod tickets;
mod title;
mod turns;
mod until_ended;
mod users;
mod viewers;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use bash_tools::App;
use bash_tools::config::{BashTools, Provider};
use bash_tools::gates::Gates;
use bash_tools::session::TemporaryChats;

use self::body::Bodies;
pub use self::body::{MAX_BODY_BYTES, MAX_VALUES};
use self::changes::Changes;
use self::turns::Turns;
use self::viewers::Viewers;
use crate::model::ModelClient;
use crate::oidc::Oidc;
use crate::people::People;
use crate::settings::{ModelSettings, Settings};
use crate::store::Store;

/// Maximum length of a user's message in characters.
pub const MAX_MESSAGE_CHARS: usize = 100_000;

/// Maximum length of an uploaded file in bytes.
pub const MAX_UPLOAD_BYTES: u64 = 100 * 1024 * 1024;

/// Maximum number of addresses in `X-Forwarded-For` that are read, from its end.
const MAX_FORWARDED: usize = 32;

/// The route that shows that the server runs, whatever its database does.
const HEALTH_ROUTE: &str = "/api/health";

/// The route where a page checks its token.
const ACCESS_ROUTE: &str = "/api/admin/access";

/// State of all request handlers. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    settings: Arc<Settings>,
    /// The tools' settings, if the file has any.
    configured: Option<Arc<BashTools>>,
    gates: Gates,
    tools: Option<App>,
    store: Store,
    people: People,
    oidc: Option<Arc<Oidc>>,
    temporary: TemporaryChats,
    models: Arc<HashMap<String, ModelEntry>>,
    turns: Turns,
    changes: Changes,
    viewers: Viewers,
    bodies: Bodies,
}

/// A model and its client.
#[derive(Clone)]
struct ModelEntry {
    settings: ModelSettings,
    client: Arc<dyn ModelClient>,
}

/// The parts of an [`Api`].
pub struct ApiParts {
    /// Settings of the app.
    pub settings: Settings,
    /// Settings of the tools, if the file has any.
    pub configured: Option<BashTools>,
    /// Rules that decide which requests may use tools.
    pub gates: Gates,
    /// The tools, if they can be enabled.
    pub tools: Option<App>,
    /// The stored chats.
    pub store: Store,
    /// The accounts.
    pub people: People,
    /// Sign-ins with an identity provider, if there is one.
    pub oidc: Option<Oidc>,
    /// Verifies the tickets of temporary chats.
    pub temporary: TemporaryChats,
    /// The client of each model, in the settings' order.
    pub clients: Vec<Arc<dyn ModelClient>>,
}

impl Api {
    /// Creates the API from its parts.
    pub fn new(parts: ApiParts) -> Self {
        let ApiParts { settings, configured, gates, tools, store, people, oidc, temporary, clients } = parts;
        let models = settings.models.iter().cloned().zip(clients);
        let models = models
            .map(|(settings, client)| (settings.id.clone(), ModelEntry { settings, client }))
            .collect::<HashMap<_, _>>();
        Self {
            settings: Arc::new(settings),
            configured: configured.map(Arc::new),
            gates,
            tools,
            store,
            people,
            oidc: oidc.map(Arc::new),
            temporary,
            models: Arc::new(models),
            turns: Turns::default(),
            changes: Changes::default(),
            viewers: Viewers::default(),
            bodies: Bodies::default(),
        }
    }

    /// Whether browsers reach the app over TLS.
    fn is_secure(&self) -> bool {
        self.settings.public_url.as_ref().is_some_and(|url| url.scheme() == "https")
    }

    /// Whether this is the address of a proxy that names its clients.
    fn is_trusted_proxy(&self, address: IpAddr) -> bool {
        let proxies = self.configured.iter().flat_map(|tools| &tools.trusted_proxies);
        proxies.into_iter().any(|proxy| proxy.contains(&address.to_canonical()))
    }

    /// Returns the name of the sandbox provider, if there are tools.
    fn provider(&self) -> Option<&'static str> {
        let tools = self.configured.as_deref()?;
        Some(match tools.provider {
            Provider::Docker(_) => "docker",
            Provider::Vercel => "vercel",
        })
    }
}

//! What pages ask, over HTTP.

mod about;
mod answer;
mod body;
mod chats;
mod error;
mod files;
mod guard;
mod page;
mod question;
mod routes;
mod sandbox;
mod server;
mod title;
mod turns;
mod who;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use bash_tools::App;
use bash_tools::config::{BashTools, Provider};
use bash_tools::gates::{BashToolsLayer, Gates};
use bash_tools::session::TemporaryChats;

use self::body::Bodies;
pub use self::body::{MAX_BODY_BYTES, MAX_VALUES};
use self::turns::Turns;
use crate::model::ModelClient;
use crate::settings::{ModelSettings, Settings};
use crate::store::Store;

/// Longest message of the person's, in characters.
pub const MAX_MESSAGE_CHARS: usize = 100_000;

/// Longest file that is uploaded, in bytes.
pub const MAX_UPLOAD_BYTES: u64 = 100 * 1024 * 1024;

/// Where a page learns whether its token is right.
const ACCESS_ROUTE: &str = "/api/admin/access";

/// What every request is answered with. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    settings: Arc<Settings>,
    /// The tools' settings, where the file has any.
    configured: Option<Arc<BashTools>>,
    gates: Gates,
    tools: Option<App>,
    store: Store,
    temporary: TemporaryChats,
    models: Arc<HashMap<String, Asker>>,
    turns: Turns,
    bodies: Bodies,
}

/// A model that can be asked.
#[derive(Clone)]
struct Asker {
    settings: ModelSettings,
    client: Arc<dyn ModelClient>,
}

/// What an [`Api`] is made of.
pub struct ApiParts {
    /// Of the app.
    pub settings: Settings,
    /// Of the tools, where the file has any.
    pub configured: Option<BashTools>,
    /// Who has tools.
    pub gates: Gates,
    /// The tools, where there may be any.
    pub tools: Option<App>,
    /// What is kept.
    pub store: Store,
    /// Whose tickets are taken.
    pub temporary: TemporaryChats,
    /// The way to each model, in the settings' order.
    pub clients: Vec<Arc<dyn ModelClient>>,
}

impl Api {
    /// Of its parts.
    pub fn new(parts: ApiParts) -> Self {
        let ApiParts { settings, configured, gates, tools, store, temporary, clients } = parts;
        let models = settings.models.iter().cloned().zip(clients);
        let models = models
            .map(|(settings, client)| (settings.id.clone(), Asker { settings, client }))
            .collect::<HashMap<_, _>>();
        Self {
            settings: Arc::new(settings),
            configured: configured.map(Arc::new),
            gates,
            tools,
            store,
            temporary,
            models: Arc::new(models),
            turns: Turns::default(),
            bodies: Bodies::default(),
        }
    }

    /// Whose sandboxes the tools have, where there are any.
    fn provider(&self) -> Option<&'static str> {
        let tools = self.configured.as_deref()?;
        Some(match tools.provider {
            Provider::Docker(_) => "docker",
            Provider::Vercel => "vercel",
        })
    }

    /// The routes. The server tells them of their peers.
    fn router(self) -> Router {
        let private =
            routes::router(routes::private()).layer(from_fn_with_state(self.clone(), guard::of_private));
        Router::new()
            .merge(private)
            .merge(routes::router(routes::open(&self.gates)))
            .route("/api/{*unknown}", any(|| async { error::Error::NotFound { what: "address" } }))
            .method_not_allowed_fallback(|| async { error::Error::Method })
            .fallback(get(page::page))
            .layer(DefaultBodyLimit::max(body::SHORT_BYTES))
            .layer(BashToolsLayer::new(self.gates.clone()))
            .layer(from_fn_with_state(self.clone(), guard::of_all))
            .with_state(self)
    }
}

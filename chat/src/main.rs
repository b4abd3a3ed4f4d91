//! The program: reads the settings, starts the server, and stops it.

use std::fs::{DirBuilder, Permissions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bash_tools::config::{self, Environment, preflight, process_environment};
use bash_tools::gates::Gates;
use bash_tools::session::TemporaryChats;
use bash_tools::tools::Python;
use bash_tools::{App, SetupError};
use chat::api::{Api, ApiParts};
use chat::model::{Anthropic, ModelClient, OpenAi};
use chat::oidc::{Oidc, OidcSettings};
use chat::operator::{self, Arguments};
use chat::people::People;
use chat::settings::{ModelProvider, ModelSettings, OidcClient, Settings};
use chat::store::Store;
use clap::Parser;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Minimum time between two values of a command, so that a page gets at most eight per second.
const PAUSE: Duration = Duration::from_millis(130);

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let has_colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .fmt_fields(log_text::EscapedFields)
        .with_ansi(has_colours)
        .with_writer(std::io::stderr)
        .init();
    log_text::log_panics();
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Some(command) => operator::run(command, process_environment).await,
        None => serve().await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> anyhow::Result<()> {
    let settings = match Settings::read(process_environment) {
        Ok(settings) => settings,
        Err(faults) => {
            for fault in &faults {
                tracing::error!("{fault}");
            }
            bail!("the environment has {} errors", faults.len());
        }
    };
    let file = config::load(process_environment).context("the tools' settings cannot be used")?;
    for note in &file.notes {
        tracing::warn!("{note}");
    }
    let environment = Environment::read(file.tools.as_ref(), process_environment);
    for fault in file.tools.iter().flat_map(|tools| preflight(tools, process_environment)) {
        tracing::warn!("the tools are disabled: {fault}");
    }
    let gates = Gates::new(file.tools.as_ref(), &environment)?;
    let tools = match file.tools.as_ref() {
        Some(tools) if environment.is_switched_on => match App::new(tools, &environment) {
            Ok(app) => Some(app.with_pause(PAUSE).with_python(Python::default())),
            // The preflight has reported it, and the gates are closed.
            Err(SetupError::MissingToken { .. }) => None,
            Err(error) => return Err(error.into()),
        },
        _ => None,
    };
    make_private(&settings.state_dir)
        .with_context(|| format!("CHAT_STATE_DIR {} cannot be created", settings.state_dir.display()))?;
    let store = Store::open(&settings.state_dir).await.context("the chats cannot be opened")?;
    let people = People::new(store.clone()).context("the accounts cannot be opened")?;
    let oidc = oidc(&settings)?;
    let temporary = TemporaryChats::new(&secret(&settings.state_dir)?);
    let clients = settings.models.iter().map(client).collect::<anyhow::Result<Vec<_>>>()?;
    let bind = settings.bind;
    let api = Api::new(ApiParts {
        settings,
        configured: file.tools,
        gates,
        tools,
        store,
        people,
        oidc,
        temporary,
        clients,
    });
    let listener =
        TcpListener::bind(bind).await.with_context(|| format!("CHAT_BIND {bind} cannot be used"))?;
    tracing::info!("open http://{}", listener.local_addr()?);
    let stop = CancellationToken::new();
    tokio::spawn(end(stop.clone()));
    api.serve(listener, stop).await;
    Ok(())
}

/// Prepares sign-ins with the identity provider, if there is one.
fn oidc(settings: &Settings) -> anyhow::Result<Option<Oidc>> {
    let (Some(client), Some(public_url)) = (&settings.oidc, &settings.public_url) else { return Ok(None) };
    let secret = client.client_secret_file.as_ref().map(|file| {
        let text = std::fs::read_to_string(file);
        text.with_context(|| format!("CHAT_OIDC_CLIENT_SECRET_FILE {} cannot be read", file.display()))
    });
    let client_secret = secret.transpose()?.map(|text| text.trim().into());
    let OidcClient { issuer, client_id, .. } = client.clone();
    let settings = OidcSettings { issuer, client_id, client_secret, public_url: public_url.clone() };
    Ok(Some(Oidc::new(settings)?))
}

fn client(model: &ModelSettings) -> anyhow::Result<Arc<dyn ModelClient>> {
    let (base, key) = (model.base.clone(), model.key.clone());
    let client: Arc<dyn ModelClient> = match model.provider {
        ModelProvider::OpenAi => Arc::new(OpenAi::new(base, key)?),
        ModelProvider::Anthropic => Arc::new(Anthropic::new(base, key)?),
    };
    Ok(client)
}

/// Makes a directory accessible only to the program's user, because chats are as private as the token.
fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let is_open = dir.metadata()?.permissions().mode() & 0o077 != 0;
    if is_open { std::fs::set_permissions(dir, Permissions::from_mode(0o700)) } else { Ok(()) }
}

/// Returns the secret for the tickets of temporary chats. Creates it once.
fn secret(state_dir: &Path) -> anyhow::Result<[u8; 32]> {
    let path = state_dir.join("tickets.key");
    let context = || format!("{} cannot be used", path.display());
    match std::fs::read(&path) {
        Ok(known) => known.try_into().ok().with_context(context),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut secret = [0; 32];
            getrandom::fill(&mut secret).context("the system provides no random bytes")?;
            let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            file.and_then(|mut file| file.write_all(&secret)).with_context(context)?;
            Ok(secret)
        }
        Err(error) => Err(error).with_context(context),
    }
}

/// Cancels `stop` when the program receives a signal to stop.
async fn end(stop: CancellationToken) {
    let Ok(mut term) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    tracing::info!("stopping");
    stop.cancel();
}

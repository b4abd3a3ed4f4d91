//! `sandboxd project`, `token` and `whoami`: projects, and who may use them.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use sandbox_api::TokenId;
use sandbox_api::project::{CreateToken, Project, Token, TokenCreated, WhoAmI};
use sandbox_client::{Client, Error};

use super::{DaemonArgs, quota, snapshot, table, text};
use sandboxd_config::Config;

/// Create, list or limit projects, which do not see each other's sandboxes
#[derive(Debug, Clone, clap::Args)]
pub struct ProjectArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(subcommand)]
    action: ProjectAction,
    /// Print the API's responses as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum ProjectAction {
    /// Create a project
    Create {
        /// Lower-case letters, digits and `-`
        name: String,
    },
    /// List the projects
    #[command(visible_alias = "list")]
    Ls,
    /// Change the quotas of a project
    Set {
        name: String,
        /// A quota, such as commands=20 or networkModes=none|allowlist; without a value, it does not apply any more
        #[arg(long = "quota", value_name = "NAME=VALUE", required = true)]
        quotas: Vec<String>,
    },
    /// Show what a project uses, now and per day
    Usage { name: String },
}

/// Create, list or revoke tokens of a project
#[derive(Debug, Clone, clap::Args)]
pub struct TokenArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(subcommand)]
    action: TokenAction,
    /// Print the API's responses as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum TokenAction {
    /// Create a token and print it; it is stored nowhere
    Create {
        project: String,
        /// Display name
        #[arg(long)]
        name: Option<String>,
        /// Limit it to what belongs to this person or program of the project
        #[arg(long)]
        subject: Option<String>,
        /// What it permits: read, use (includes read) or manage [default: use]
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Time after which it expires, such as 12h or 30d
        #[arg(long, value_name = "TIME", value_parser = text::parse_span)]
        ttl: Option<Duration>,
    },
    /// List the tokens, without their secrets
    #[command(visible_alias = "list")]
    Ls { project: String },
    /// Revoke a token, and close its connections and preview links
    Revoke {
        project: String,
        /// Id of the token (`tok_…`)
        token: TokenId,
    },
}

/// Show whom the token in use belongs to
#[derive(Debug, Clone, clap::Args)]
pub struct WhoAmIArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print the API's response as JSON
    #[arg(long)]
    json: bool,
}

/// Creates, lists or limits projects.
pub(crate) async fn project(args: ProjectArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let explain = |error| args.daemon.explain(error, config);
    match &args.action {
        ProjectAction::Create { name } => {
            let created = client.create_project(name).await.map_err(explain)?;
            snapshot::print(args.json, &serde_json::json!(created), |out| {
                writeln!(out, "{}", text::printable(&created.name))
            })
        }
        ProjectAction::Ls => {
            let found = projects(&client).await.map_err(explain)?;
            let json = serde_json::json!({ "projects": found });
            snapshot::print(args.json, &json, |out| write_projects(out, &found))
        }
        ProjectAction::Set { name, quotas } => {
            let before = client.project(name).await.map_err(explain)?.quotas;
            let quotas = quota::changed(&before, quotas)?;
            let changed = client.set_quotas(name, &quotas).await.map_err(explain)?;
            snapshot::print(args.json, &serde_json::json!(changed), |out| quota::write(out, &changed.quotas))
        }
        ProjectAction::Usage { name } => {
            let found = client.project_usage(name).await.map_err(explain)?;
            snapshot::print(args.json, &serde_json::json!(found), |out| quota::write_usage(out, &found))
        }
    }
}

/// Creates, lists or revokes tokens.
pub(crate) async fn token(args: TokenArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let explain = |error| args.daemon.explain(error, config);
    match args.action.clone() {
        TokenAction::Create { project, name, subject, scopes, ttl } => {
            let ttl_ms = ttl.map(|ttl| ttl.as_millis() as u64);
            let request =
                CreateToken { name, subject, scopes: (!scopes.is_empty()).then_some(scopes), ttl_ms };
            let created = client.create_token(&project, &request).await.map_err(explain)?;
            snapshot::print(args.json, &serde_json::json!(created), |out| write_token(out, &created))
        }
        TokenAction::Ls { project } => {
            let found = tokens(&client, &project).await.map_err(explain)?;
            let json = serde_json::json!({ "tokens": found });
            snapshot::print(args.json, &json, |out| write_tokens(out, &found))
        }
        TokenAction::Revoke { project, token } => {
            let done = client.revoke_token(&project, &token).await.map_err(explain)?;
            snapshot::print(args.json, &serde_json::json!(done), |out| writeln!(out, "{token}: revoked"))
        }
    }
}

/// Shows whom the token belongs to.
pub(crate) async fn whoami(args: WhoAmIArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let found = client.whoami().await.map_err(|error| args.daemon.explain(error, config))?;
    snapshot::print(args.json, &serde_json::json!(found), |out| write_whoami(out, &found))
}

async fn projects(client: &Client) -> Result<Vec<Project>, Error> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = client.projects(cursor.as_deref()).await?;
        let is_last = page.next_cursor.is_none() || page.projects.is_empty();
        found.extend(page.projects);
        if is_last {
            return Ok(found);
        }
        cursor = page.next_cursor;
    }
}

async fn tokens(client: &Client, project: &str) -> Result<Vec<Token>, Error> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = client.tokens(project, cursor.as_deref()).await?;
        let is_last = page.next_cursor.is_none() || page.tokens.is_empty();
        found.extend(page.tokens);
        if is_last {
            return Ok(found);
        }
        cursor = page.next_cursor;
    }
}

fn write_projects(out: &mut impl Write, projects: &[Project]) -> io::Result<()> {
    let header = std::iter::once(["NAME", "CREATED"].map(str::to_owned));
    let row = |project: &Project| [table::untrusted(&project.name), format!("{:.0}", project.created_at)];
    table::write(out, &header.chain(projects.iter().map(row)).collect::<Vec<_>>())
}

/// The token alone on standard output, so that a script can use it.
fn write_token(out: &mut impl Write, created: &TokenCreated) -> io::Result<()> {
    writeln!(io::stderr(), "{}; it is not stored and not shown again", created.properties.token_id)?;
    writeln!(out, "{}", text::printable(&created.token))
}

fn write_tokens(out: &mut impl Write, tokens: &[Token]) -> io::Result<()> {
    let header = ["ID", "SUBJECT", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "NAME"].map(str::to_owned);
    let rows = std::iter::once(header).chain(tokens.iter().map(row));
    table::write(out, &rows.collect::<Vec<_>>())
}

fn row(token: &Token) -> [String; 7] {
    let untrusted = |text: &Option<String>| text.as_deref().map_or_else(|| "-".into(), table::untrusted);
    let time = |time: Option<jiff::Timestamp>| time.map_or_else(|| "-".into(), |time| format!("{time:.0}"));
    [
        token.token_id.to_string(),
        untrusted(&token.subject),
        table::untrusted(&token.scopes.join(",")),
        format!("{:.0}", token.created_at),
        time(token.expires_at),
        time(token.last_used_at),
        untrusted(&token.name),
    ]
}

fn write_whoami(out: &mut impl Write, found: &WhoAmI) -> io::Result<()> {
    let WhoAmI { project, subject, scopes, token, operator, sandbox_id, expires_at } = found;
    let subject = subject.as_deref().map_or_else(|| "the whole project".into(), text::printable);
    writeln!(out, "project  {}", text::printable(project))?;
    writeln!(out, "subject  {subject}")?;
    writeln!(out, "scopes   {}", text::printable(&scopes.join(", ")))?;
    let kind = if *operator { " (the operator's)" } else { "" };
    writeln!(out, "token    {}{kind}", text::printable(token))?;
    if let Some(id) = sandbox_id {
        writeln!(out, "sandbox  {id}")?;
    }
    match expires_at {
        Some(at) => writeln!(out, "expires  {at:.0}"),
        None => Ok(()),
    }
}

//! Settings. They are read from the environment and checked once, and all faults are reported together.
//!
//! No other module reads settings from the environment. `sandboxd check-config` reports every setting with its source,
//! and every unknown name with our prefix, because such a name is usually a typing error.

mod bind_host;
#[cfg(test)]
mod documented;
mod identity;
mod packages;
mod parse;
#[cfg(test)]
mod published;
mod reader;
mod remote_store;
mod repositories;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_api::limits as shared;
use secrecy::{ExposeSecret, SecretString};

pub use bind_host::BindHost;
pub use parse::daemon_url;
pub use reader::{Fault, Report, Row};

use self::reader::Reader;
use sandboxd_model::audit::AuditSettings;
use sandboxd_model::front::FrontSettings;
use sandboxd_model::jwt::JwtSettings;
use sandboxd_model::layout::DEFAULT_IMAGE;
use sandboxd_model::packages::PackageSettings;
use sandboxd_model::preview::PreviewSettings;
use sandboxd_model::rates::RateSettings;
use sandboxd_model::repository::RepositorySettings;
use sandboxd_model::{
    DiskQuota, EgressSettings, EngineAddress, ImageSource, Limits, ProjectQuotas, RemoteStore, ToolTokens,
    Transport, Upstreams, limits,
};

pub use sandboxd_model::limits::MIN_TOKEN_CHARS;

/// Checked settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address that the API listens on.
    pub bind_host: BindHost,
    /// Port that the API listens on. 0 is any free port.
    pub port: u16,
    /// The daemon's URL for the commands of the command line.
    pub url: String,
    /// `None` is allowed on a loopback address: the daemon then generates a token and keeps it in the state dir.
    pub admin_token: Option<SecretString>,
    /// Tokens that may only use tools.
    pub tool_tokens: ToolTokens,
    /// JSON Web Tokens that are accepted. `None` is none.
    pub jwt: Option<JwtSettings>,
    /// A trusted front. `None` is none.
    pub front: Option<FrontSettings>,
    /// Limits on the number of requests.
    pub rates: RateSettings,
    /// Directory of the database, the instance key and the generated token.
    pub state_dir: PathBuf,
    /// Remote store of snapshots. `None` is a directory in the state dir.
    pub remote_store: Option<RemoteStore>,
    /// The audit record.
    pub audit: AuditSettings,
    /// Directory of the agents' sockets.
    pub run_dir: PathBuf,
    /// Address of the engine.
    pub engine: EngineAddress,
    /// OCI runtime of sandboxes. `None` is the engine's default.
    pub oci_runtime: Option<String>,
    /// Configurable limits.
    pub limits: Limits,
    /// Tag of the sandbox image.
    pub image: String,
    /// What the image is built from, if the folder `sandbox-images` was found.
    pub image_source: Option<ImageSource>,
    /// Whether a missing image is built.
    pub autobuild: bool,
    /// Path of the agent's executable.
    pub agent_program: PathBuf,
    /// Whether agents keep shells waiting for commands.
    pub waiting_shells: bool,
    /// Transport to the agents. `None` detects it.
    pub transport: Option<Transport>,
    /// Whether workspaces must have a quota.
    pub disk_quota: DiskQuota,
    /// Images that a client may request besides the daemon's own.
    pub allowed_images: Vec<String>,
    /// Whether sandboxes of the original daemon are adopted at the start.
    pub adopt_original: bool,
    /// Addresses and URLs of previews.
    pub preview: PreviewSettings,
    /// Image with socat that publishes ports. `None` detects one.
    pub proxy_image: Option<String>,
    /// Prefix of the names of our networks, before the instance's id.
    pub network_name: String,
    /// Whether a sandbox may have the network mode `open`.
    pub open_network: bool,
    /// Quotas of projects that have no others, except the operator's.
    pub project_quotas: ProjectQuotas,
    /// Outbound network of sandboxes.
    pub egress: EgressSettings,
    /// Repositories that are fetched.
    pub repositories: RepositorySettings,
    /// Python packages that are resolved.
    pub packages: PackageSettings,
    /// Whether the admin page is served.
    pub admin_page: bool,
    /// Host names that requests to the API may use, besides addresses.
    pub allowed_hosts: Vec<String>,
    /// Log filter in the syntax of tracing-subscriber's `EnvFilter`.
    pub log_filter: String,
    /// Whether log lines are JSON.
    pub log_json: bool,
}

/// Settings that were removed, and the error message for each.
const REMOVED_SETTINGS: [(&str, &str); 1] =
    [("SANDBOXD_REQUIRE_TOKEN", "a token is always required; remove this setting")];

/// Host names that are always allowed: those of this machine, and the daemon's in compose networks.
const KNOWN_HOSTS: [&str; 3] = ["localhost", "sandboxd", "host.docker.internal"];

impl Config {
    /// Reads the settings with `env`. The report lists them even if some are invalid.
    pub fn load(
        env: impl Fn(&str) -> Option<String>,
        names: Vec<String>,
    ) -> (Result<Self, Vec<Fault>>, Report) {
        let mut reader = Reader::new(&env);
        let config = Self::read(&mut reader);
        for (name, problem) in REMOVED_SETTINGS {
            if env(name).is_some() {
                reader.fault(name, problem);
            }
        }
        let (faults, report) = reader.finish(names);
        match config {
            Some(config) if faults.is_empty() => (Ok(config), report),
            _ => (Err(faults), report),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let bind_host = reader.setting("SANDBOXD_BIND_HOST", "127.0.0.1", parse::bind_host);
        let port = reader.setting("SANDBOXD_PORT", "8080", parse::port);
        let own_url = parse::url_of(bind_host.as_ref(), port);
        let url = reader.guarded_setting("SANDBOXD_URL", &own_url, parse::daemon_url);
        let admin_token = reader.secret("SANDBOXD_ADMIN_TOKEN");
        check_token(reader, bind_host.as_ref(), admin_token.as_ref());
        let tool_tokens = reader.optional("SANDBOXD_TOOL_TOKENS_FILE", parse::tool_tokens);
        let jwt = identity::read_jwt(reader);
        let front = identity::read_front(reader);
        let rates = identity::read_rates(reader);
        let state_dir = reader.setting("SANDBOXD_STATE_DIR", &parse::default_state_dir(), parse::directory);
        let remote_store = remote_store::read(reader);
        let audit = read_audit(reader, state_dir.as_deref());
        let run_dir = reader.setting("SANDBOXD_RUN_DIR", &parse::default_run_dir(), parse::run_dir);
        let engine = reader.engine();
        let oci_runtime = reader.optional("SANDBOXD_RUNTIME", parse::word);
        let limits = read_limits(reader);
        let image = reader.setting("SANDBOXD_IMAGE", DEFAULT_IMAGE, parse::word);
        let image_dir = reader.optional("SANDBOXD_IMAGE_DIR", parse::directory);
        let no_autobuild = reader.setting("SANDBOXD_DISABLE_AUTOBUILD", "false", parse::boolean);
        let build_ca = reader.optional("SANDBOXD_BUILD_CA", parse::directory);
        let agent_program =
            reader.setting("SANDBOXD_AGENT_PATH", &parse::default_agent_program(), parse::directory);
        let waiting_shells = reader.setting("SANDBOXD_WAITING_SHELLS", "true", parse::boolean);
        let transport = reader.setting("SANDBOXD_AGENT_TRANSPORT", "auto", parse::transport);
        let public_host = reader.optional("SANDBOXD_PUBLIC_HOST", parse::host);
        let proxy_image = reader.optional("SANDBOXD_PROXY_IMAGE", parse::word);
        let network_name = reader.setting("SANDBOXD_NETWORK_NAME", "remcochat-sandbox-net", parse::word);
        let open_network = reader.setting("SANDBOXD_ALLOW_OPEN_NETWORK", "false", parse::boolean);
        let preview = read_preview(reader, bind_host.as_ref(), public_host.clone());
        let egress = read_egress(reader);
        let repositories = repositories::read(reader);
        let packages = packages::read(reader);
        let disk_quota = reader.setting("SANDBOXD_DISK_QUOTA", "auto", parse::disk_quota);
        let allowed_images = reader.setting("SANDBOXD_ALLOWED_IMAGES", "", parse::list);
        let project_quotas = reader.setting("SANDBOXD_PROJECT_QUOTAS", "", parse::quotas);
        let adopt_original = reader.setting("SANDBOXD_ADOPT_ORIGINAL", "false", parse::boolean);
        let admin_page = reader.setting("SANDBOXD_ADMIN_PAGE", "true", parse::boolean);
        let allowed_hosts = reader.setting("SANDBOXD_ALLOWED_HOSTS", "", parse::list);
        let log_filter = reader.first_of(&["SANDBOXD_LOG", "RUST_LOG"], "info", parse::log_filter);
        let log_json = reader.setting("SANDBOXD_LOG_FORMAT", "text", parse::log_format);

        let bind_host = bind_host?;
        let known = KNOWN_HOSTS.map(str::to_owned).into_iter();
        let named = std::iter::once(bind_host.text.clone()).chain(public_host).chain(allowed_hosts?);
        Some(Self {
            allowed_hosts: known.chain(named).map(|host| host.to_ascii_lowercase()).collect(),
            bind_host,
            admin_page: admin_page?,
            port: port?,
            url: url?,
            admin_token,
            tool_tokens: tool_tokens.unwrap_or_default(),
            jwt: jwt?,
            front: front?,
            rates: rates?,
            state_dir: state_dir?,
            remote_store: remote_store?,
            audit: audit?,
            run_dir: run_dir?,
            engine: engine?,
            oci_runtime,
            limits: limits?,
            image: image?,
            image_source: image_dir
                .or_else(parse::find_image_dir)
                .map(|folder| ImageSource { folder, build_ca }),
            autobuild: !no_autobuild?,
            agent_program: agent_program?,
            waiting_shells: waiting_shells?,
            transport: transport?,
            disk_quota: disk_quota?,
            allowed_images: allowed_images?,
            preview: preview?,
            proxy_image,
            network_name: network_name?,
            open_network: open_network?,
            project_quotas: project_quotas?,
            egress: egress?,
            repositories: repositories?,
            packages: packages?,
            adopt_original: adopt_original?,
            log_filter: log_filter?,
            log_json: log_json?,
        })
    }
}

fn read_audit(reader: &mut Reader<'_>, state_dir: Option<&Path>) -> Option<AuditSettings> {
    let dir = reader.optional("SANDBOXD_AUDIT_DIR", parse::directory);
    let kept = reader.setting("SANDBOXD_AUDIT_MB", "1024", parse::number(0..=1_073_741_824));
    let commands = reader.setting("SANDBOXD_AUDIT_COMMANDS", "hash", parse::command_detail);
    Some(AuditSettings {
        dir: dir.or_else(|| Some(state_dir?.join("audit")))?,
        kept_bytes: kept? * 1024 * 1024,
        commands: commands?,
    })
}

fn check_token(reader: &mut Reader<'_>, bind: Option<&BindHost>, token: Option<&SecretString>) {
    let Some(bind) = bind.filter(|bind| !bind.address.is_loopback()) else {
        return;
    };
    let chars = token.map_or(0, |token| token.expose_secret().chars().count());
    if chars < MIN_TOKEN_CHARS {
        reader.fault(
            "SANDBOXD_ADMIN_TOKEN",
            format!(
                "must have at least {MIN_TOKEN_CHARS} characters if SANDBOXD_BIND_HOST is not a loopback address ({})",
                bind.text
            ),
        );
    }
}

fn read_preview(
    reader: &mut Reader<'_>,
    bind_host: Option<&BindHost>,
    public_host: Option<String>,
) -> Option<PreviewSettings> {
    let is_local = bind_host.is_none_or(|bind| bind.address.is_loopback());
    let reach = reader.setting("SANDBOXD_PREVIEW", "gateway", parse::reach);
    let bind = reader.setting("SANDBOXD_PREVIEW_BIND", "127.0.0.1:8081", parse::socket_address);
    let domain = reader.setting("SANDBOXD_PREVIEW_DOMAIN", "localhost", parse::domain);
    let front = reader.optional("SANDBOXD_PREVIEW_PUBLIC_URL", parse::front);
    let link_ports = reader.setting("SANDBOXD_PREVIEW_PORTS", "42000-42099", parse::port_range);
    let proto = reader.setting("SANDBOXD_PUBLIC_PROTO", "http", parse::is_https);
    let publish = if is_local { "127.0.0.1" } else { "0.0.0.0" };
    let publish_ip = reader.setting("SANDBOXD_PUBLISH_HOST_IP", publish, parse::bind_host);
    let domain = match (&front, domain?) {
        // The host of the public URL is the domain of the previews, unless a domain is set.
        (Some((host, _)), domain) if domain == "localhost" => host.clone(),
        (_, domain) => domain,
    };
    Some(PreviewSettings {
        reach: reach?,
        bind: bind?,
        domain,
        front: front.map(|(_, front)| front),
        link_ports: link_ports?,
        public_host,
        is_https: proto?,
        publish_ip: publish_ip?.address,
        api_host: bind_host?.address,
    })
}

fn read_egress(reader: &mut Reader<'_>) -> Option<EgressSettings> {
    let allow_cidr = reader.setting("SANDBOXD_EGRESS_ALLOW_CIDR", "", parse::cidrs);
    let hosts = reader.setting("SANDBOXD_EGRESS_HOSTS", "", parse::hosts);
    let max_bytes = reader.setting("SANDBOXD_EGRESS_MAX_MB", "0", parse::number(0..=1_073_741_824));
    let ca_bundle = reader.optional("SANDBOXD_CA_BUNDLE", parse::ca_bundle);
    // The usual names of these variables, which other programs read too.
    let https = reader.upstream(&["HTTPS_PROXY", "https_proxy"]);
    let http = reader.upstream(&["HTTP_PROXY", "http_proxy"]);
    let none_for = reader.first_of(&["NO_PROXY", "no_proxy"], "", parse::no_proxy);
    Some(EgressSettings {
        allow_cidr: allow_cidr?,
        hosts: hosts?,
        upstreams: Upstreams { http, https, none_for: none_for? },
        max_bytes: max_bytes.map(|mb| (mb > 0).then_some(mb * 1024 * 1024))?,
        ca_bundle,
    })
}

fn read_limits(reader: &mut Reader<'_>) -> Option<Limits> {
    let max_concurrent = reader.setting("SANDBOXD_MAX_CONCURRENT", "8", parse::number(1..=1000));
    let pool_size =
        reader.setting("SANDBOXD_POOL_SIZE", "1", parse::number(0..=limits::MAX_POOL_SIZE as u64));
    let idle_ttl = reader.setting(
        "SANDBOXD_DEFAULT_IDLE_TTL_MS",
        &shared::DEFAULT_IDLE_TTL_MS.to_string(),
        parse::number(shared::IDLE_TTL_MS),
    );
    let retention =
        reader.setting("SANDBOXD_WORKSPACE_RETENTION_MS", "86400000", parse::number(0..=31_536_000_000));
    let orphan_grace =
        reader.setting("SANDBOXD_ORPHAN_GRACE_MS", "86400000", parse::number(1000..=31_536_000_000));
    let disk_budget = reader.setting("SANDBOXD_DISK_BUDGET_MB", "51200", parse::number(0..=1_073_741_824));
    let bases = reader.setting("SANDBOXD_BASES_MB", "10240", parse::number(0..=1_073_741_824));
    let snapshots = reader.setting("SANDBOXD_SNAPSHOTS_MB", "51200", parse::number(0..=1_073_741_824));
    let body = reader.setting("SANDBOXD_MAX_BODY_BYTES", "52428800", parse::number(1024..=209_715_200));
    let timeout = reader.setting(
        "SANDBOXD_MAX_COMMAND_TIMEOUT_MS",
        &shared::DEFAULT_MAX_COMMAND_TIMEOUT_MS.to_string(),
        parse::number(shared::MIN_COMMAND_TIMEOUT_SETTING_MS..=86_400_000),
    );
    let preview_answer =
        reader.setting("SANDBOXD_PREVIEW_ANSWER_MS", "300000", parse::number(1000..=3_600_000));
    Some(Limits {
        max_concurrent: max_concurrent? as usize,
        pool_size: pool_size? as usize,
        default_idle_ttl: Duration::from_millis(idle_ttl?),
        workspace_retention: Duration::from_millis(retention?),
        orphan_grace: Duration::from_millis(orphan_grace?),
        disk_budget_bytes: disk_budget.map(|mb| (mb > 0).then_some(mb * 1024 * 1024))?,
        bases_bytes: bases? * 1024 * 1024,
        snapshots_bytes: snapshots.map(|mb| (mb > 0).then_some(mb * 1024 * 1024))?,
        max_body_bytes: body? as usize,
        max_command_timeout: Duration::from_millis(timeout?),
        preview_answer: Duration::from_millis(preview_answer?),
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn load(settings: &[(&str, &str)]) -> (Result<Config, Vec<Fault>>, Report) {
        let find = |name: &str| {
            settings.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Config::load(find, settings.iter().map(|(name, _)| (*name).to_owned()).collect())
    }

    fn faulty(settings: &[(&str, &str)]) -> Vec<String> {
        let faults = load(settings).0.unwrap_err();
        faults.into_iter().map(|fault| fault.name).collect()
    }

    #[test]
    fn defaults_apply_without_settings() {
        let config = load(&[]).0.unwrap();
        assert_eq!((config.bind_host.text.as_str(), config.port), ("127.0.0.1", 8080));
        assert_eq!(config.limits.max_concurrent, 8);
        assert!(config.admin_token.is_none() && config.autobuild && !config.log_json);
    }

    #[test]
    fn all_faults_are_reported_together() {
        let faults = faulty(&[
            ("SANDBOXD_PORT", "70000"),
            ("SANDBOXD_MAX_CONCURRENT", "0"),
            ("SANDBOXD_LOG_FORMAT", "xml"),
            ("SANDBOXD_REQUIRE_TOKEN", "1"),
        ]);
        let wanted =
            ["SANDBOXD_PORT", "SANDBOXD_MAX_CONCURRENT", "SANDBOXD_LOG_FORMAT", "SANDBOXD_REQUIRE_TOKEN"];
        assert_eq!(faults, wanted);
    }

    #[test]
    fn a_non_loopback_address_needs_a_long_token() {
        let open = ("SANDBOXD_BIND_HOST", "0.0.0.0");
        assert_eq!(faulty(&[open]), ["SANDBOXD_ADMIN_TOKEN"]);
        assert_eq!(faulty(&[open, ("SANDBOXD_ADMIN_TOKEN", &"x".repeat(31))]), ["SANDBOXD_ADMIN_TOKEN"]);
        assert!(load(&[open, ("SANDBOXD_ADMIN_TOKEN", &"x".repeat(32))]).0.is_ok());
        for loopback in ["127.0.0.1", "localhost", "::1", "[::1]", "127.9.9.9"] {
            assert!(load(&[("SANDBOXD_BIND_HOST", loopback)]).0.is_ok(), "{loopback}");
        }
    }

    #[test]
    fn egress_settings_are_checked() {
        let egress = |settings: &[_]| load(settings).0.unwrap().egress;
        let ranges = egress(&[("SANDBOXD_EGRESS_ALLOW_CIDR", "10.0.0.0/8, fd00::/8,192.168.1.5")]).allow_cidr;
        assert_eq!(ranges.len(), 3);
        assert!(ranges[0].contains(&"10.9.9.9".parse::<IpAddr>().unwrap()));
        let hosts = egress(&[("SANDBOXD_EGRESS_HOSTS", "Git.LAN=10.0.0.1,git.lan=10.0.0.2")]).hosts;
        assert_eq!(hosts["git.lan"].len(), 2);
        assert_eq!(egress(&[]).max_bytes, None);
        assert_eq!(egress(&[("SANDBOXD_EGRESS_MAX_MB", "1")]).max_bytes, Some(1 << 20));
        let bad = [
            ("SANDBOXD_EGRESS_ALLOW_CIDR", "10.0.0.0/33"),
            ("SANDBOXD_EGRESS_ALLOW_CIDR", "0.0.0.0/0"),
            ("SANDBOXD_EGRESS_ALLOW_CIDR", "10.0.0.0/8 192.168.0.0/16"),
            ("SANDBOXD_EGRESS_HOSTS", "git.lan"),
            ("SANDBOXD_EGRESS_HOSTS", "127.1=10.0.0.1"),
            ("SANDBOXD_EGRESS_HOSTS", "git.lan=10.1"),
            ("SANDBOXD_EGRESS_MAX_MB", "-1"),
            ("SANDBOXD_CA_BUNDLE", "/nowhere"),
            ("SANDBOXD_CA_BUNDLE", "relative.pem"),
            ("HTTPS_PROXY", "socks5://proxy:1080"),
        ];
        for (name, value) in bad {
            assert_eq!(faulty(&[(name, value)]), [name], "{value}");
        }
    }

    #[test]
    fn quotas_of_projects_are_checked() {
        let quotas = load(&[("SANDBOXD_PROJECT_QUOTAS", "commands=5,networkModes=none")]).0.unwrap();
        assert_eq!(quotas.project_quotas.limit(sandboxd_model::Quota::Commands), Some(5));
        for bad in ["commands", "command=5", "networkModes=no", "guaranteedRunning=1"] {
            assert_eq!(faulty(&[("SANDBOXD_PROJECT_QUOTAS", bad)]), ["SANDBOXD_PROJECT_QUOTAS"], "{bad}");
        }
    }

    #[test]
    fn a_proxys_password_is_not_in_the_report() {
        let (config, report) =
            load(&[("https_proxy", "http://me:hush@proxy:3128"), ("NO_PROXY", "localhost,.lan")]);
        let upstreams = config.unwrap().egress.upstreams;
        assert!(upstreams.https.is_some() && upstreams.http.is_none() && upstreams.none_for.len() == 2);
        let report = report.to_string();
        assert!(!report.contains("hush") && report.contains("proxy:3128"), "{report}");
    }

    #[test]
    fn the_default_url_is_the_address_that_the_daemon_listens_on() {
        let url = |settings: &[_]| load(settings).0.unwrap().url;
        let token = ("SANDBOXD_ADMIN_TOKEN", "x".repeat(32));
        let token = (token.0, token.1.as_str());
        assert_eq!(url(&[]), "http://127.0.0.1:8080");
        assert_eq!(url(&[("SANDBOXD_PORT", "9000")]), "http://127.0.0.1:9000");
        assert_eq!(url(&[("SANDBOXD_BIND_HOST", "0.0.0.0"), token]), "http://127.0.0.1:8080");
        assert_eq!(url(&[("SANDBOXD_BIND_HOST", "::1")]), "http://[::1]:8080");
        assert_eq!(url(&[("SANDBOXD_PORT", "9000"), ("SANDBOXD_URL", "http://there:1/")]), "http://there:1/");
        assert_eq!(faulty(&[("SANDBOXD_URL", "there:1")]), ["SANDBOXD_URL"]);
    }

    #[test]
    fn a_url_with_a_password_is_rejected_and_not_shown() {
        let (config, report) = load(&[("SANDBOXD_URL", "https://me:hush@there:1/")]);
        let faults = config.unwrap_err();
        assert_eq!(faults.len(), 1);
        let shown = format!("{} {report}", faults[0]);
        assert!(shown.contains("SANDBOXD_URL") && !shown.contains("hush"), "{shown}");
        assert!(load(&[("SANDBOXD_URL", "https://there/path@1")]).0.is_ok());
    }

    #[test]
    fn the_engine_clients_debug_log_must_be_enabled_by_name() {
        let filter = |text| load(&[("SANDBOXD_LOG", text)]).0.unwrap().log_filter;
        assert_eq!(filter("debug"), "bollard=info,debug");
        // The last directive for a target applies.
        assert_eq!(filter("bollard=trace"), "bollard=info,bollard=trace");
    }

    #[test]
    fn a_blank_setting_counts_as_not_set() {
        let config = load(&[("SANDBOXD_PORT", " "), ("SANDBOXD_ADMIN_TOKEN", "  ")]).0.unwrap();
        assert_eq!(config.port, 8080);
        assert!(config.admin_token.is_none());
    }

    #[test]
    fn engine_addresses_have_the_order_of_the_original_daemon() {
        let both = [("DOCKER_HOST", "unix:///b.sock"), ("SANDBOXD_DOCKER_SOCKET", "/a.sock")];
        assert_eq!(load(&both).0.unwrap().engine, EngineAddress::Unix("/a.sock".into()));
        assert_eq!(load(&both[..1]).0.unwrap().engine, EngineAddress::Unix("/b.sock".into()));
        let tcp = load(&[("DOCKER_HOST", "tcp://10.0.0.1:2375")]).0.unwrap().engine;
        assert_eq!(tcp, EngineAddress::Tcp("10.0.0.1:2375".into()));
        assert_eq!(faulty(&[("DOCKER_HOST", "ssh://me@there")]), ["DOCKER_HOST"]);
    }

    #[test]
    fn the_report_hides_the_token_and_lists_unknown_settings() {
        let report = load(&[("SANDBOXD_ADMIN_TOKEN", "hush"), ("SANDBOXD_PROT", "1")]).1.to_string();
        assert!(!report.contains("hush"), "{report}");
        assert!(report.contains("SANDBOXD_PROT"), "{report}");
    }
}

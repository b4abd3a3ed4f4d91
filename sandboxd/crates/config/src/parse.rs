//! Parses the text of settings. An error says what is wrong with the value.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ipnet::IpNet;

use super::bind_host::BindHost;
use sandboxd_model::audit::CommandDetail;
use sandboxd_model::preview::{Front, Reach};
use sandboxd_model::{
    CaBundle, DiskQuota, EngineAddress, Host, NoProxy, ProjectQuotas, ToolTokens, Transport, limits,
};

/// Prefix of every log filter. bollard logs the bodies of its requests at debug level, and the bodies that create
/// containers contain the agents' secrets. An operator who needs them must name bollard in the filter.
const ENGINE_CLIENT_FILTER: &str = "bollard=info";

/// Maximum length of the domain of previews. A host name has at most 253 characters (RFC 1035), and the label of a
/// preview takes 39 of them.
const MAX_DOMAIN_CHARS: usize = 214;

/// Maximum length of the run dir. The path of a unix socket has at most 107 bytes and a NUL (unix(7)). The names of the
/// instance, the sandbox and the socket take 55 of them.
const MAX_RUN_DIR_BYTES: usize = 52;

pub(super) fn bind_host(text: &str) -> Result<BindHost, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = match bare {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        bare => bare.parse(),
    };
    let address = address.map_err(|_| format!("must be an IP address or `localhost`, not {text:?}"))?;
    Ok(BindHost { text: bare.to_owned(), address })
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("must be 0 to 65535, not {text:?}"))
}

/// Quotas of every project. They guarantee nothing, because the number of projects is not known.
pub(super) fn quotas(text: &str) -> Result<ProjectQuotas, String> {
    let quotas = ProjectQuotas::from_pairs(text)
        .map_err(|error| format!("is invalid: {} {}", error.field, error.problem))?;
    match quotas.guaranteed_running {
        Some(_) => Err("cannot have `guaranteedRunning`: set it for single projects".into()),
        None => Ok(quotas),
    }
}

/// URL of a daemon. Its requests carry a token, so a user name or a password in it would be ignored, and shown where
/// the URL is.
pub fn daemon_url(text: &str) -> Result<String, String> {
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
        return Err("must begin with `http://` or `https://`".into());
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.contains('@') {
        true => Err("must have no user name and no password; the token is a setting of its own".into()),
        false => word(text),
    }
}

/// URL of a daemon with this address and port, for clients on the same machine.
pub(super) fn url_of(bind: Option<&BindHost>, port: Option<u16>) -> String {
    let address = bind.map(|bind| bind.address).filter(|address| !address.is_unspecified());
    let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    format!("http://{}", std::net::SocketAddr::new(address, port.unwrap_or_default()))
}

pub(super) fn number(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("must be {} to {}, not {text:?}", range.start(), range.end()))
    }
}

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(format!("must be `true` or `false`, not {text:?}")),
    }
}

pub(super) fn word(text: &str) -> Result<String, String> {
    if text.chars().any(|char| char.is_whitespace() || char.is_control()) {
        return Err("must not contain spaces or control characters".into());
    }
    Ok(text.to_owned())
}

pub(super) fn list(text: &str) -> Result<Vec<String>, String> {
    Ok(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
}

pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err(format!("must be an absolute path, not {text:?}")) }
}

pub(super) fn run_dir(text: &str) -> Result<PathBuf, String> {
    if text.len() > MAX_RUN_DIR_BYTES {
        return Err(format!(
            "must be at most {MAX_RUN_DIR_BYTES} bytes long, because the path of a socket is limited"
        ));
    }
    directory(text)
}

pub(super) fn docker_host(text: &str) -> Result<EngineAddress, String> {
    if let Some(path) = text.strip_prefix("unix://") {
        return Ok(EngineAddress::Unix(path.into()));
    }
    match text.strip_prefix("tcp://") {
        Some(address) if !address.is_empty() => Ok(EngineAddress::Tcp(address.trim_end_matches('/').into())),
        _ => Err(format!("must begin with `unix://` or `tcp://`, not {text:?}")),
    }
}

/// A host as in a URL: an IPv6 address is in brackets.
pub(super) fn host(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let is_address = bare.is_some_and(|bare| bare.parse::<std::net::Ipv6Addr>().is_ok());
    if is_address || is_name(text) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(format!("must be a host name or an address, without a scheme and a port, not {text:?}"))
}

/// A domain. `*.` before it and dots at either end are removed.
pub(super) fn domain(text: &str) -> Result<String, String> {
    let name = text.trim_start_matches("*.").trim_matches('.');
    if is_name(name) { Ok(name.to_ascii_lowercase()) } else { Err(format!("must be a domain, not {text:?}")) }
}

/// Whether this is a host name of letters, digits, dashes and dots (RFC 1123) that leaves room for a preview's label.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.len() <= MAX_DOMAIN_CHARS && text.split('.').all(is_label)
}

pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let named = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    named
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| format!("must be an IP address and a port, such as 127.0.0.1:8081, not {text:?}"))
}

/// Public URL of previews: its host, and its scheme and port.
pub(super) fn front(text: &str) -> Result<(String, Front), String> {
    let fault = || format!("must be `http://` or `https://`, a domain and optionally a port, not {text:?}");
    let uri: http::Uri = text.parse().map_err(|_| fault())?;
    let is_https = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(fault()),
    };
    let is_bare = matches!(uri.path_and_query().map(|path| path.as_str()), None | Some("/"));
    match uri.host() {
        Some(host) if is_bare => Ok((domain(host)?, Front { is_https, port: uri.port_u16() })),
        _ => Err(fault()),
    }
}

pub(super) fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let fault = || format!("must be a range of ports such as 42000-42099, not {text:?}");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.trim().parse().map_err(|_| fault())?..=last.trim().parse().map_err(|_| fault())?;
    if *range.start() == 0 || range.is_empty() { Err(fault()) } else { Ok(range) }
}

/// Ranges of addresses, separated by commas. A single address is a range of one.
pub(super) fn cidrs(text: &str) -> Result<Vec<IpNet>, String> {
    let range = |text: String| {
        let range = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        match range {
            Ok(range) if range.prefix_len() > 0 => Ok(range),
            Ok(_) => Err("must not be the range of all addresses".to_owned()),
            Err(_) => {
                Err(format!("must be ranges such as 192.168.1.0/24, separated by commas, not {text:?}"))
            }
        }
    };
    list(text)?.into_iter().map(range).collect()
}

/// Pairs of `name=address`, separated by commas. A name may occur several times.
pub(super) fn hosts(text: &str) -> Result<HashMap<String, Vec<IpAddr>>, String> {
    let mut hosts = HashMap::<_, Vec<_>>::new();
    for pair in list(text)? {
        let fault = || format!("must be pairs such as git.lan=10.0.0.5, separated by commas, not {pair:?}");
        let (name, address) = pair.split_once('=').ok_or_else(fault)?;
        let Ok(Host::Name(name)) = Host::parse(name.trim()) else { return Err(fault()) };
        hosts.entry(name).or_default().push(address.trim().parse().map_err(|_| fault())?);
    }
    Ok(hosts)
}

pub(super) fn ca_bundle(text: &str) -> Result<CaBundle, String> {
    let path = directory(text)?;
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let size = std::fs::metadata(&path).map_err(unreadable)?.len();
    if size > limits::MAX_CA_BUNDLE_BYTES {
        return Err(format!("must be at most {} bytes long", limits::MAX_CA_BUNDLE_BYTES));
    }
    CaBundle::new(&path, std::fs::read_to_string(&path).map_err(unreadable)?)
}

pub(super) fn tool_tokens(text: &str) -> Result<ToolTokens, String> {
    let path = directory(text)?;
    let content = std::fs::read(&path).map_err(|error| format!("cannot be read: {error}"))?;
    let content = String::from_utf8(content).map_err(|_| "must be UTF-8".to_owned())?;
    ToolTokens::parse(&content)
}

pub(super) fn no_proxy(text: &str) -> Result<Vec<NoProxy>, String> {
    // Unknown entries are skipped, because the variable is shared with other programs and must not prevent a start.
    Ok(list(text)?.iter().filter_map(|entry| NoProxy::parse(entry)).collect())
}

pub(super) fn reach(text: &str) -> Result<Reach, String> {
    Reach::parse(text).ok_or_else(|| format!("must be `gateway` or `publish`, not {text:?}"))
}

/// Whether published ports have `https` URLs.
pub(super) fn is_https(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "http" => Ok(false),
        "https" => Ok(true),
        _ => Err(format!("must be `http` or `https`, not {text:?}")),
    }
}

pub(super) fn disk_quota(text: &str) -> Result<DiskQuota, String> {
    DiskQuota::parse(text).ok_or_else(|| format!("must be `auto`, `required` or `off`, not {text:?}"))
}

pub(super) fn transport(text: &str) -> Result<Option<Transport>, String> {
    match (text, Transport::parse(text)) {
        ("auto", _) => Ok(None),
        (_, Some(transport)) => Ok(Some(transport)),
        (_, None) => Err(format!("must be `auto`, `socket` or `engine`, not {text:?}")),
    }
}

pub(super) fn command_detail(text: &str) -> Result<CommandDetail, String> {
    match text {
        "hash" => Ok(CommandDetail::Hash),
        "text" => Ok(CommandDetail::Text),
        _ => Err(format!("must be `hash` or `text`, not {text:?}")),
    }
}

pub(super) fn log_filter(text: &str) -> Result<String, String> {
    match text.parse::<tracing_subscriber::EnvFilter>() {
        Ok(_) => Ok(format!("{ENGINE_CLIENT_FILTER},{text}")),
        Err(error) => Err(format!("is not a log filter: {error}")),
    }
}

pub(super) fn log_format(text: &str) -> Result<bool, String> {
    match text {
        "json" => Ok(true),
        "text" => Ok(false),
        _ => Err(format!("must be `text` or `json`, not {text:?}")),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn from_env(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

pub(super) fn default_state_dir() -> String {
    let own = || from_env("XDG_STATE_HOME").or_else(|| Some(from_env("HOME")?.join(".local/state")));
    let base = if is_root() { None } else { own() };
    base.unwrap_or_else(|| "/var/lib".into()).join("sandboxd").to_string_lossy().into_owned()
}

pub(super) fn default_run_dir() -> String {
    let base = if is_root() { None } else { from_env("XDG_RUNTIME_DIR") };
    base.unwrap_or_else(|| "/run".into()).join("sandboxd").to_string_lossy().into_owned()
}

pub(super) fn default_agent_program() -> String {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("sandbox-agent")));
    beside.unwrap_or_else(|| "/usr/lib/sandboxd/sandbox-agent".into()).to_string_lossy().into_owned()
}

/// The folder `sandbox-images`: in the working directory, in the checkout of this executable, or from a package.
pub(super) fn find_image_dir() -> Option<PathBuf> {
    let from_here = std::env::current_dir().ok().map(|dir| dir.join("sandbox-images"));
    let exe = std::env::current_exe().ok();
    let from_target = exe.and_then(|exe| Some(exe.parent()?.parent()?.parent()?.join("sandbox-images")));
    let packaged = Some(PathBuf::from("/usr/share/sandboxd/sandbox-images"));
    [from_here, from_target, packaged].into_iter().flatten().find(|dir| dir.join("make-base").is_file())
}

//! Settings for who may send requests, besides tokens, and for how many.

use std::num::NonZeroU32;
use std::path::Path;

use http::HeaderName;
use secrecy::SecretString;

use super::parse;
use super::reader::Reader;
use sandboxd_model::front::FrontSettings;
use sandboxd_model::jwt::{JwtAlgorithm, JwtKeys, JwtSettings};
use sandboxd_model::rates::RateSettings;
use sandboxd_model::{AdminToken, ProjectName, Scopes, limits};

const SECRET: &str = "SANDBOXD_JWT_SECRET_FILE";
const FILE: &str = "SANDBOXD_JWT_JWKS_FILE";
const URL: &str = "SANDBOXD_JWT_JWKS_URL";
const ALGORITHMS: &str = "SANDBOXD_JWT_ALGORITHMS";
const ISSUER: &str = "SANDBOXD_JWT_ISSUER";
const AUDIENCE: &str = "SANDBOXD_JWT_AUDIENCE";

/// Request headers that cannot name a subject, because they have another meaning or a browser sets them.
const OTHER_HEADERS: [&str; 7] =
    ["authorization", "connection", "content-length", "cookie", "host", "origin", "transfer-encoding"];

/// Reads the settings of JSON Web Tokens. Without keys, the others have no effect, but must be valid. `None` if one is not.
pub(super) fn read_jwt(reader: &mut Reader<'_>) -> Option<Option<JwtSettings>> {
    let before = reader.faults();
    let keys = [
        reader.optional(SECRET, secret).map(|keys| (SECRET, keys)),
        reader.optional(FILE, |text| parse::directory(text).map(JwtKeys::File)).map(|keys| (FILE, keys)),
        reader.guarded(URL, jwks_url).map(|keys| (URL, keys)),
    ];
    let algorithms = reader.setting(ALGORITHMS, "RS256,ES256,EdDSA", algorithms);
    let issuer = reader.optional(ISSUER, parse::word);
    let audiences = reader.setting(AUDIENCE, "", parse::list);
    let subject_claim = reader.setting("SANDBOXD_JWT_SUBJECT_CLAIM", "sub", parse::word);
    let project_claim = reader.optional("SANDBOXD_JWT_PROJECT_CLAIM", parse::word);
    let project = reader.setting("SANDBOXD_JWT_PROJECT", ProjectName::DEFAULT, project);
    let scopes = reader.setting("SANDBOXD_JWT_SCOPES", "use", scopes);
    let mut set: Vec<(&str, JwtKeys)> = keys.into_iter().flatten().collect();
    for (name, _) in set.iter().skip(1) {
        reader.fault(name, format!("cannot be set together with {}", set[0].0));
    }
    let keys = set.drain(..).next().map(|(_, keys)| keys);
    if keys.is_some() && audiences.as_ref().is_some_and(Vec::is_empty) {
        reader.fault(AUDIENCE, "must be set if JSON Web Tokens are accepted");
    }
    if matches!(keys, Some(JwtKeys::File(_) | JwtKeys::Url(_))) && issuer.is_none() {
        reader.fault(ISSUER, "must be set if JSON Web Tokens are accepted with a key set");
    }
    if reader.faults() > before {
        return None;
    }
    let Some(keys) = keys else { return Some(None) };
    let is_secret = matches!(keys, JwtKeys::Secret(_));
    Some(Some(JwtSettings {
        algorithms: if is_secret { vec![JwtAlgorithm::Hs256] } else { algorithms? },
        keys,
        issuer,
        audiences: audiences?,
        subject_claim: subject_claim?,
        project_claim,
        project: project?,
        scopes: scopes?,
    }))
}

/// Reads the settings of a trusted front. `None` if one is not valid.
pub(super) fn read_front(reader: &mut Reader<'_>) -> Option<Option<FrontSettings>> {
    const KEY: &str = "SANDBOXD_FRONT_KEY_FILE";
    const ADDRESSES: &str = "SANDBOXD_FRONT_ADDRESSES";
    let before = reader.faults();
    let key = reader.optional(KEY, front_key);
    let addresses = reader.setting(ADDRESSES, "", parse::cidrs);
    let header = reader.setting("SANDBOXD_FRONT_SUBJECT_HEADER", "x-forwarded-user", header);
    let project = reader.setting("SANDBOXD_FRONT_PROJECT", ProjectName::DEFAULT, project);
    if key.is_some() && addresses.as_ref().is_some_and(Vec::is_empty) {
        reader.fault(ADDRESSES, format!("must be set if {KEY} is set"));
    }
    if reader.faults() > before {
        return None;
    }
    let Some(key) = key else { return Some(None) };
    Some(Some(FrontSettings { key, addresses: addresses?, header: header?, project: project? }))
}

/// Reads the limits on the number of requests.
pub(super) fn read_rates(reader: &mut Reader<'_>) -> Option<RateSettings> {
    let mut rate = |name, default| {
        let rate = reader.setting(name, default, parse::number(0..=1_000_000));
        rate.map(|rate| NonZeroU32::new(rate as u32))
    };
    let reads = rate("SANDBOXD_READS_PER_MINUTE", "6000");
    let commands = rate("SANDBOXD_COMMANDS_PER_MINUTE", "3000");
    let creates = rate("SANDBOXD_CREATES_PER_MINUTE", "120");
    let trusted_proxies = reader.setting("SANDBOXD_TRUSTED_PROXIES", "", parse::cidrs);
    Some(RateSettings {
        reads: reads?,
        commands: commands?,
        creates: creates?,
        trusted_proxies: trusted_proxies?,
    })
}

fn secret(text: &str) -> Result<JwtKeys, String> {
    let secret = content_of(text)?;
    if secret.len() < limits::MIN_JWT_SECRET_BYTES {
        return Err(format!("must have at least {} bytes", limits::MIN_JWT_SECRET_BYTES));
    }
    Ok(JwtKeys::Secret(secret))
}

fn front_key(text: &str) -> Result<AdminToken, String> {
    let key = String::from_utf8(content_of(text)?).map_err(|_| "must be UTF-8".to_owned())?;
    if key.chars().count() < limits::MIN_TOKEN_CHARS {
        return Err(format!("must have at least {} characters", limits::MIN_TOKEN_CHARS));
    }
    Ok(AdminToken::new(&SecretString::from(key)))
}

/// The content of a file, without white space at its ends.
fn content_of(path: &str) -> Result<Vec<u8>, String> {
    let path = parse::directory(path)?;
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let size = std::fs::metadata(&path).map_err(unreadable)?.len();
    if size > limits::MAX_KEY_FILE_BYTES {
        return Err(format!("must be at most {} bytes long", limits::MAX_KEY_FILE_BYTES));
    }
    Ok(std::fs::read(Path::new(&path)).map_err(unreadable)?.trim_ascii().to_vec())
}

/// A URL with TLS, or of this machine or a container beside the daemon. Its fault does not show it, because a URL may have a
/// password.
fn jwks_url(text: &str) -> Result<JwtKeys, String> {
    let rest = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => rest,
        (_, Some(rest)) if is_near(rest) => rest,
        _ => {
            return Err("must begin with `https://`; `http://` is for addresses of this machine and names \
                 without a dot"
                .into());
        }
    };
    if rest.is_empty() || rest.contains('@') {
        return Err("must not have a user or a password".into());
    }
    parse::word(text).map(JwtKeys::Url)
}

/// Whether the host of a URL without its scheme is this machine, or a name of a container network.
fn is_near(rest: &str) -> bool {
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    address.map_or(!name.contains('.'), |address| address.is_loopback())
}

fn algorithms(text: &str) -> Result<Vec<JwtAlgorithm>, String> {
    let found: Vec<_> = parse::list(text)?.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    if found.is_empty() { Err("must name an algorithm".into()) } else { Ok(found) }
}

fn project(text: &str) -> Result<ProjectName, String> {
    text.parse().map_err(|_| format!("must be the name of a project, not {text:?}"))
}

fn scopes(text: &str) -> Result<Scopes, String> {
    let names = parse::list(text)?;
    Scopes::parse(names.iter().map(String::as_str)).map_err(|error| error.problem)
}

fn header(text: &str) -> Result<HeaderName, String> {
    let header: HeaderName = text.parse().map_err(|_| "must be the name of a header".to_owned())?;
    match OTHER_HEADERS.contains(&header.as_str()) {
        true => Err("must not be a header with another meaning".into()),
        false => Ok(header),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Fault};

    fn load(settings: &[(&str, &str)]) -> Result<Config, Vec<Fault>> {
        let find = |name: &str| {
            settings.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Config::load(find, Vec::new()).0
    }

    fn faulty(settings: &[(&str, &str)]) -> Vec<String> {
        load(settings).unwrap_err().into_iter().map(|fault| fault.name).collect()
    }

    #[test]
    fn keys_need_an_audience_and_perhaps_an_issuer() {
        let url = ("SANDBOXD_JWT_JWKS_URL", "https://id.example/keys");
        let (audience, issuer) =
            (("SANDBOXD_JWT_AUDIENCE", "sandboxd"), ("SANDBOXD_JWT_ISSUER", "https://id.example"));
        assert_eq!(faulty(&[url]), ["SANDBOXD_JWT_AUDIENCE", "SANDBOXD_JWT_ISSUER"]);
        assert_eq!(faulty(&[url, audience]), ["SANDBOXD_JWT_ISSUER"]);
        assert!(load(&[url, audience, issuer]).unwrap().jwt.is_some());
        assert!(load(&[audience, issuer]).unwrap().jwt.is_none());
        let file = ("SANDBOXD_JWT_JWKS_FILE", "/keys.json");
        assert_eq!(faulty(&[url, file, audience, issuer]), ["SANDBOXD_JWT_JWKS_URL"]);
    }

    #[test]
    fn a_key_set_is_requested_with_tls_or_from_a_near_host() {
        let accepts = |url: &str| {
            let others = [
                ("SANDBOXD_JWT_AUDIENCE", "a"),
                ("SANDBOXD_JWT_ISSUER", "b"),
                ("SANDBOXD_JWT_JWKS_URL", url),
            ];
            load(&others).is_ok()
        };
        for url in
            ["https://id.example/k", "http://127.0.0.1:9/k", "http://[::1]/k", "http://keycloak:8080/k"]
        {
            assert!(accepts(url), "{url}");
        }
        for url in
            ["http://id.example/k", "http://192.0.2.1/k", "ftp://id.example", "https://a:b@id.example/k"]
        {
            assert!(!accepts(url), "{url}");
        }
    }

    #[test]
    fn short_keys_and_unsuitable_headers_are_rejected() {
        let short = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(short.path(), "short").unwrap();
        let path = short.path().to_str().unwrap();
        let audience = ("SANDBOXD_JWT_AUDIENCE", "sandboxd");
        assert_eq!(faulty(&[("SANDBOXD_JWT_SECRET_FILE", path), audience]), ["SANDBOXD_JWT_SECRET_FILE"]);
        assert_eq!(faulty(&[("SANDBOXD_FRONT_KEY_FILE", path)]), ["SANDBOXD_FRONT_KEY_FILE"]);
        std::fs::write(short.path(), "k".repeat(32)).unwrap();
        assert_eq!(faulty(&[("SANDBOXD_FRONT_KEY_FILE", path)]), ["SANDBOXD_FRONT_ADDRESSES"]);
        let addresses = ("SANDBOXD_FRONT_ADDRESSES", "127.0.0.1");
        let front = [("SANDBOXD_FRONT_KEY_FILE", path), addresses];
        assert!(load(&front).unwrap().front.is_some());
        let cookie = ("SANDBOXD_FRONT_SUBJECT_HEADER", "Cookie");
        assert_eq!(faulty(&[front[0], front[1], cookie]), ["SANDBOXD_FRONT_SUBJECT_HEADER"]);
        for algorithms in ["HS256", "none", "", "RS256,RS1"] {
            assert_eq!(load(&[("SANDBOXD_JWT_ALGORITHMS", algorithms)]).is_ok(), algorithms.is_empty());
        }
    }
}

//! Settings of a remote store of snapshots.

use super::parse;
use super::reader::Reader;
use sandboxd_model::{MasterKeys, RemoteLocation, RemoteStore, limits};

/// Settings that a remote store needs.
const STORE: &str = "SANDBOXD_SNAPSHOT_STORE";
const KEYS: &str = "SANDBOXD_SNAPSHOT_KEY_FILE";
const ACCESS_KEY: &str = "SANDBOXD_SNAPSHOT_ACCESS_KEY_ID";
const SECRET: &str = "SANDBOXD_SNAPSHOT_SECRET_ACCESS_KEY";

/// Reads the settings. Without [`STORE`], the others have no effect, but must be valid. `None` if one is not.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<Option<RemoteStore>> {
    let before = reader.faults();
    let location = reader.optional(STORE, RemoteLocation::parse);
    let master_keys = reader.optional(KEYS, master_keys);
    let endpoint = reader.guarded("SANDBOXD_SNAPSHOT_ENDPOINT", endpoint);
    let region = reader.setting("SANDBOXD_SNAPSHOT_REGION", "us-east-1", parse::word);
    let access_key_id = reader.optional(ACCESS_KEY, parse::word);
    let secret_access_key = reader.secret(SECRET);
    if reader.faults() > before {
        return None;
    }
    let Some(location) = location else { return Some(None) };
    let missing = [
        (KEYS, master_keys.is_none()),
        (ACCESS_KEY, access_key_id.is_none()),
        (SECRET, secret_access_key.is_none()),
    ];
    for (name, _) in missing.iter().filter(|(_, is_missing)| *is_missing) {
        reader.fault(name, format!("must be set if {STORE} is a remote store ({location})"));
    }
    Some(Some(RemoteStore {
        location,
        endpoint,
        region: region?,
        access_key_id: access_key_id?,
        secret_access_key: secret_access_key?,
        master_keys: master_keys?,
    }))
}

/// A URL without a user and a password: they are not used, and the log and errors would show them. The fault does not.
fn endpoint(text: &str) -> Result<String, String> {
    let after_scheme = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match after_scheme {
        None => Err("must begin with `http://` or `https://`".into()),
        Some(rest) if rest.contains('@') => {
            Err(format!("must not have a user or a password; set {ACCESS_KEY} and {SECRET} instead"))
        }
        Some(rest) if rest.contains(['?', '#']) => Err("must not have a query or a fragment".into()),
        Some(_) => parse::word(text),
    }
}

fn master_keys(text: &str) -> Result<MasterKeys, String> {
    let path = parse::directory(text)?;
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let size = std::fs::metadata(&path).map_err(unreadable)?.len();
    if size > limits::MAX_KEY_FILE_BYTES {
        return Err(format!("must be at most {} bytes long", limits::MAX_KEY_FILE_BYTES));
    }
    MasterKeys::parse(&std::fs::read_to_string(&path).map_err(unreadable)?)
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
    fn a_remote_store_needs_keys() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys");
        std::fs::write(&file, "0f".repeat(32)).unwrap();
        let store = ("SANDBOXD_SNAPSHOT_STORE", "s3://snapshots/one");
        let keys = ("SANDBOXD_SNAPSHOT_KEY_FILE", file.to_str().unwrap());
        let access = ("SANDBOXD_SNAPSHOT_ACCESS_KEY_ID", "id");
        let secret = ("SANDBOXD_SNAPSHOT_SECRET_ACCESS_KEY", "hush");

        assert!(load(&[]).unwrap().remote_store.is_none());
        assert!(load(&[keys, access, secret]).unwrap().remote_store.is_none());
        let remote = load(&[store, keys, access, secret]).unwrap().remote_store.unwrap();
        assert_eq!(
            (remote.location.to_string().as_str(), remote.region.as_str()),
            ("s3://snapshots/one", "us-east-1")
        );
        assert!(!format!("{remote:?}").contains("hush"));
        assert_eq!(faulty(&[store]), [keys.0, access.0, secret.0]);
        assert_eq!(faulty(&[store, access, secret]), [keys.0]);
    }

    #[test]
    fn an_endpoint_has_no_credentials_and_no_report_shows_them() {
        for url in ["https://user:hush@s3.example.com", "http://hush@[::1]:9000/x", "ftp://user:hush@host"] {
            let find = |name: &str| (name == "SANDBOXD_SNAPSHOT_ENDPOINT").then(|| url.to_owned());
            let (loaded, report) = Config::load(find, Vec::new());
            let faults = loaded.unwrap_err();
            assert_eq!(faults.len(), 1);
            assert!(!faults[0].to_string().contains("hush"), "{}", faults[0]);
            assert!(!report.to_string().contains("hush"), "{report}");
        }
        let url = ("SANDBOXD_SNAPSHOT_ENDPOINT", "http://127.0.0.1:9000/s3");
        load(&[url]).unwrap();
    }

    #[test]
    fn faulty_settings_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys");
        std::fs::write(&file, "not a key").unwrap();
        for (name, value) in [
            ("SANDBOXD_SNAPSHOT_STORE", "/a/directory"),
            ("SANDBOXD_SNAPSHOT_KEY_FILE", file.to_str().unwrap()),
            ("SANDBOXD_SNAPSHOT_KEY_FILE", "/nowhere"),
            ("SANDBOXD_SNAPSHOT_KEY_FILE", "relative"),
            ("SANDBOXD_SNAPSHOT_ENDPOINT", "s3.example.com"),
            ("SANDBOXD_SNAPSHOT_ENDPOINT", "https://s3.example.com/?a=b"),
        ] {
            assert_eq!(faulty(&[(name, value)]), [name], "{value}");
        }
    }
}

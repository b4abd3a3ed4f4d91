//! Settings for Python packages.

use secrecy::ExposeSecret;

use super::parse;
use super::reader::Reader;
use sandboxd_model::packages::PackageSettings;
use sandboxd_model::repository::{GitTokens, HttpsUrl};

const TOKENS: &str = "SANDBOXD_PACKAGE_TOKENS";
const MIB: u64 = 1024 * 1024;

/// Reads the settings. `None` if one is not valid.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<PackageSettings> {
    let kept = reader.setting("SANDBOXD_PACKAGES_MB", "8192", parse::number(0..=1_073_741_824));
    let max_fetched = reader.setting("SANDBOXD_PACKAGES_MAX_MB", "1024", parse::number(1..=16_384));
    let index = reader.guarded_setting("SANDBOXD_PACKAGE_INDEX", "https://pypi.org/simple", HttpsUrl::parse);
    let credentials = match reader.secret(TOKENS) {
        None => Some(GitTokens::default()),
        Some(text) => match GitTokens::parse(text.expose_secret()) {
            Ok(tokens) => Some(tokens),
            Err(problem) => {
                reader.fault(TOKENS, problem);
                None
            }
        },
    };
    Some(PackageSettings {
        kept_bytes: kept? * MIB,
        max_fetched_bytes: max_fetched? * MIB,
        index: index?,
        credentials: credentials?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Report};

    fn load(name: &str, value: &str) -> (Result<Config, Vec<String>>, Report) {
        let find = |asked: &str| (asked == name).then(|| value.to_owned());
        let (config, report) = Config::load(find, Vec::new());
        (config.map_err(|faults| faults.into_iter().map(|fault| fault.to_string()).collect()), report)
    }

    #[test]
    fn settings_of_packages_are_checked() {
        let defaults = load("none", "").0.unwrap().packages;
        assert_eq!(defaults.index.to_string(), "https://pypi.org/simple");
        assert_eq!((defaults.kept_bytes, defaults.max_fetched_bytes), (8 << 30, 1 << 30));
        for (name, bad) in [
            ("SANDBOXD_PACKAGES_MB", "-1"),
            ("SANDBOXD_PACKAGES_MAX_MB", "0"),
            ("SANDBOXD_PACKAGE_INDEX", "http://index.example/simple"),
            ("SANDBOXD_PACKAGE_INDEX", "https://me:hush@index.example/simple"),
            ("SANDBOXD_PACKAGE_TOKENS", "hush"),
        ] {
            let (config, report) = load(name, bad);
            let faults = config.unwrap_err();
            assert!(faults.len() == 1 && faults[0].starts_with(name), "{faults:?}");
            assert!(!format!("{faults:?} {report}").contains("hush"), "{report}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let (config, report) = load(TOKENS, "index.example=me:hush");
        let packages = config.unwrap().packages;
        assert!(packages.credentials.has(&HttpsUrl::parse("https://index.example/a").unwrap()));
        assert!(!format!("{packages:?} {report}").contains("hush"));
    }
}

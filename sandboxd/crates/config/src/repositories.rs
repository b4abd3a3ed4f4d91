//! Settings for repositories.

use secrecy::ExposeSecret;

use super::parse;
use super::reader::Reader;
use sandboxd_model::repository::{AllowedDirectories, GitTokens, HttpsUrl, RepositorySettings};
use sandboxd_model::{FieldError, ProjectName};

const TOKENS: &str = "SANDBOXD_GIT_TOKENS";
const MIB: u64 = 1024 * 1024;

/// Reads the settings. `None` if one is not valid.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<RepositorySettings> {
    let kept = reader.setting("SANDBOXD_REPOSITORIES_MB", "8192", parse::number(0..=1_073_741_824));
    let max_fetched = reader.setting("SANDBOXD_REPOSITORY_MAX_MB", "1024", parse::number(1..=16_384));
    let forge = reader.guarded_setting("SANDBOXD_GIT_FORGE", "https://github.com", HttpsUrl::parse);
    let registry =
        reader.guarded_setting("SANDBOXD_NPM_REGISTRY", "https://registry.npmjs.org", HttpsUrl::parse);
    let tokens = match reader.secret(TOKENS) {
        None => Some(GitTokens::default()),
        Some(text) => match GitTokens::parse(text.expose_secret()) {
            Ok(tokens) => Some(tokens),
            Err(problem) => {
                reader.fault(TOKENS, problem);
                None
            }
        },
    };
    let token_projects = reader.setting("SANDBOXD_GIT_TOKEN_PROJECTS", ProjectName::DEFAULT, projects);
    let directories = reader.setting("SANDBOXD_REPOSITORY_DIRECTORIES", "", AllowedDirectories::parse);
    let directory_projects =
        reader.setting("SANDBOXD_REPOSITORY_DIRECTORY_PROJECTS", ProjectName::DEFAULT, projects);
    Some(RepositorySettings {
        kept_bytes: kept? * MIB,
        max_fetched_bytes: max_fetched? * MIB,
        forge: forge?,
        registry: registry?,
        tokens: tokens?,
        token_projects: token_projects?,
        directories: directories?.only_for(directory_projects?),
    })
}

fn projects(text: &str) -> Result<Vec<ProjectName>, String> {
    let fault = |_: FieldError| "must be names of projects, separated by commas".to_owned();
    parse::list(text)?.iter().map(|name| name.parse().map_err(fault)).collect()
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
    fn settings_of_repositories_are_checked() {
        let defaults = load("none", "").0.unwrap().repositories;
        assert_eq!(defaults.forge.to_string(), "https://github.com");
        assert_eq!((defaults.kept_bytes, defaults.token_projects), (8 << 30, vec![ProjectName::default()]));
        for (name, bad) in [
            ("SANDBOXD_REPOSITORIES_MB", "-1"),
            ("SANDBOXD_REPOSITORY_MAX_MB", "0"),
            ("SANDBOXD_GIT_FORGE", "http://git.example"),
            ("SANDBOXD_NPM_REGISTRY", "https://me:hush@registry.example"),
            ("SANDBOXD_GIT_TOKENS", "hush"),
            ("SANDBOXD_GIT_TOKEN_PROJECTS", "Not A Name"),
            ("SANDBOXD_REPOSITORY_DIRECTORIES", "app=srv"),
            ("SANDBOXD_REPOSITORY_DIRECTORY_PROJECTS", "Not A Name"),
        ] {
            let (config, report) = load(name, bad);
            let faults = config.unwrap_err();
            assert!(faults.len() == 1 && faults[0].starts_with(name), "{faults:?}");
            assert!(!format!("{faults:?} {report}").contains("hush"), "{report}");
        }
    }

    #[test]
    fn tokens_are_not_shown() {
        let (config, report) = load("SANDBOXD_GIT_TOKENS", "git.example=hush");
        let tokens = config.unwrap().repositories.tokens;
        assert!(tokens.has(&HttpsUrl::parse("https://git.example/a").unwrap()));
        assert!(!format!("{tokens:?} {report}").contains("hush"));
    }
}

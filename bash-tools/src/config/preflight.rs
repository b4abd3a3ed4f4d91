//! Whether the tools would work if the app started now: settings and environment together, and the disk.
//!
//! What each gate would say at every request is said here once, before the first. Nothing is sent anywhere.

use std::io::ErrorKind;
use std::path::Path;

use secrecy::SecretString;

use super::environment::{self as names, Environment, MIN_TOKEN_CHARS, chars, first};
use super::fault::{Fault, Place, Problem};
use super::settings::{Access, BashTools, Provider, Seed};

/// Looks for everything that would keep these tools from working.
pub fn preflight(tools: &BashTools, env: impl Fn(&str) -> Option<String>) -> Vec<Fault> {
    let environment = Environment::read(Some(tools), &env);
    let mut faults = Vec::new();
    if !environment.is_switched_on {
        faults.push(Fault::of_variable(names::SWITCH, Problem::SwitchedOff));
    }
    if tools.access == Access::Lan {
        let because = "where access is \"lan\"";
        faults.extend(weakness(names::ADMIN_TOKEN, environment.admin_token.as_ref(), because));
    }
    match &tools.provider {
        // Whoever may connect to it there must know more than where it is.
        Provider::Docker(docker) if !docker.is_local() => {
            let because = "where docker.orchestrator_url is not on this machine";
            let token = environment.orchestrator_token.as_ref();
            let name = docker.admin_token_env.as_str();
            let is_told = faults.iter().any(|fault| fault.at == Place::Variable { name: name.to_owned() });
            faults.extend(weakness(name, token, because).filter(|_| !is_told));
        }
        Provider::Docker(_) => {}
        Provider::Vercel if environment.vercel.is_none() => faults.extend(missing_at_vercel(&env)),
        Provider::Vercel => {}
    }
    match &tools.seed {
        Seed::Git(git) => {
            let name = git.token_env.as_deref().filter(|_| environment.git_token.is_none());
            let because = "because seed.git_token_env names it";
            faults.extend(name.map(|name| Fault::of_variable(name, Problem::Missing { because })));
        }
        Seed::Upload(upload) => faults.extend(no_directory(&upload.root)),
        Seed::None => {}
    }
    faults
}

fn weakness(name: &str, token: Option<&SecretString>, because: &'static str) -> Option<Fault> {
    let problem = match token.map(chars) {
        None => Problem::Missing { because },
        Some(found_chars) if found_chars < MIN_TOKEN_CHARS => {
            Problem::WeakToken { min_chars: MIN_TOKEN_CHARS, found_chars, because }
        }
        Some(_) => return None,
    };
    Some(Fault::of_variable(name, problem))
}

/// Without anything the one variable that is enough; with some of the three the others.
fn missing_at_vercel(env: &impl Fn(&str) -> Option<String>) -> Vec<Fault> {
    let parts: [&[&str]; 3] = [&names::VERCEL_TOKEN, &names::VERCEL_TEAM, &names::VERCEL_PROJECT];
    let missing: Vec<_> = parts.into_iter().filter(|names| first(env, names).is_none()).collect();
    let fault = |name, because| Fault::of_variable(name, Problem::Missing { because });
    if missing.len() == parts.len() {
        let because =
            "where provider is \"vercel\", or VERCEL_TOKEN with VERCEL_TEAM_ID and VERCEL_PROJECT_ID";
        return vec![fault(names::VERCEL_OIDC_TOKEN, because)];
    }
    let because = "beside what else there is of VERCEL_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID";
    missing.into_iter().map(|names| fault(names[0], because)).collect()
}

fn no_directory(root: &Path) -> Option<Fault> {
    let kind = match std::fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => std::fs::read_dir(root).err()?.kind(),
        Ok(_) => ErrorKind::NotADirectory,
        Err(error) => error.kind(),
    };
    let at = Place::Key { path: format!("{}.project_root", super::SECTION), line: None };
    Some(Fault { at, problem: Problem::NoDirectory { path: root.to_owned(), kind } })
}

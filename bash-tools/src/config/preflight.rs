//! Startup check of settings, environment and disk.
//!
//! It reports once, before the first request, what each gate would report at every request. It makes no connections.

use std::io::ErrorKind;
use std::path::Path;

use secrecy::SecretString;

use super::environment::{self as names, Environment, MIN_TOKEN_CHARS, chars};
use super::fault::{Fault, Location, Problem};
use super::settings::{Access, BashTools, DockerSettings, Provider, SECTION, Seed};
use crate::provider::BadCredentials;

/// Reports everything that would prevent the tools from working.
pub fn preflight(tools: &BashTools, env: impl Fn(&str) -> Option<String>) -> Vec<Fault> {
    let environment = Environment::read(Some(tools), &env);
    let mut faults = Vec::new();
    if !environment.is_switched_on {
        faults.push(Fault::of_variable(names::SWITCH, Problem::SwitchedOff));
    }
    if tools.access == Access::Lan {
        let because = "if access is \"lan\"";
        faults.extend(weakness(names::ADMIN_TOKEN, environment.admin_token.as_ref(), because));
    }
    match &tools.provider {
        Provider::Docker(docker) => {
            let name = docker.admin_token_env.as_str();
            let is_reported =
                faults.iter().any(|fault| fault.at == Location::Variable { name: name.to_owned() });
            faults.extend(orchestrator_token(docker, &environment).filter(|_| !is_reported));
        }
        Provider::Vercel => {
            let bad = environment.vercel.as_ref().err();
            let fault =
                |bad: &BadCredentials| Fault::of_variable(bad.variable(), Problem::NotForVercel(*bad));
            faults.extend(bad.map(fault));
        }
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

/// sandboxd requires a token, and a long one if other machines can connect to it.
fn orchestrator_token(docker: &DockerSettings, environment: &Environment) -> Option<Fault> {
    let token = environment.orchestrator_token.as_ref();
    let because = match docker.is_local() {
        true if token.is_some() => return None,
        true => "because sandboxd rejects requests without its token",
        false => "if docker.orchestrator_url is not on this machine",
    };
    weakness(&docker.admin_token_env, token, because)
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

fn no_directory(root: &Path) -> Option<Fault> {
    let kind = match std::fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => std::fs::read_dir(root).err()?.kind(),
        Ok(_) => ErrorKind::NotADirectory,
        Err(error) => error.kind(),
    };
    let at = Location::Key { path: format!("{SECTION}.project_root"), line: None };
    Some(Fault { at, problem: Problem::NoDirectory { path: root.to_owned(), kind } })
}

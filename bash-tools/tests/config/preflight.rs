//! Checks before the start, over file, environment and disk together.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bash_tools::config::{self, preflight};

use crate::{file, tools};

/// The preflight errors for a file and an environment.
fn errors_of(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let find =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    preflight(&tools(text), find).iter().map(ToString::to_string).collect()
}

const ON: (&str, &str) = ("REMCOCHAT_ENABLE_BASH_TOOL", "1");
const LONG: &str = "0123456789abcdef0123456789abcdef";
/// A sandboxd on this machine.
const TOKEN: (&str, &str) = ("REMCOCHAT_ADMIN_TOKEN", "short");

#[test]
fn preflight_requires_the_switch_to_be_on() {
    let good = file("app.bash_tools", &[]);
    for on in ["1", "true", "YES", " on "] {
        assert_eq!(errors_of(&good, &[(ON.0, on), TOKEN]), [""; 0], "{on}");
    }
    let off = ["the environment's REMCOCHAT_ENABLE_BASH_TOOL must be 1, true, yes or on to enable the tools"];
    assert_eq!(errors_of(&good, &[TOKEN]), off);
    for no in ["0", "false", "", "enabled"] {
        assert_eq!(errors_of(&good, &[(ON.0, no), TOKEN]), off, "{no}");
    }
}

#[test]
fn preflight_requires_long_tokens() {
    let lan = file("app.bash_tools", &["access = \"lan\""]);
    let far = file(
        "app.bash_tools.docker",
        &["orchestrator_url = \"http://sandboxd:8080\"", "admin_token_env = \"TOKEN\""],
    );
    for (text, name) in [(&lan, "REMCOCHAT_ADMIN_TOKEN"), (&far, "TOKEN")] {
        assert_eq!(errors_of(text, &[ON, (name, LONG)]), [""; 0], "{name}");
        let missing = errors_of(text, &[ON]);
        assert!(
            missing.len() == 1 && missing[0].starts_with(&format!("the environment's {name} is required")),
            "{missing:?}"
        );
        let short = errors_of(text, &[ON, (name, &LONG[1..])]);
        assert!(short.len() == 1 && short[0].contains("must have at least 32 characters"), "{short:?}");
        assert!(!short[0].contains(&LONG[1..]));
    }
    let both = lan.replace("127.0.0.1:8080", "sandboxd:8080");
    assert_eq!(errors_of(&both, &[ON]).len(), 1, "a variable used for both is reported once");
    for near in ["http://localhost:1", "http://127.0.0.1", "http://[::1]:8080"] {
        let near = file("app.bash_tools.docker", &[&format!("orchestrator_url = \"{near}\"")]);
        assert_eq!(errors_of(&near, &[ON, TOKEN]), [""; 0]);
        assert!(errors_of(&near, &[ON])[0].contains("REMCOCHAT_ADMIN_TOKEN is required because sandboxd"));
    }
}

#[test]
fn preflight_requires_vercel_credentials() {
    let vercel = file("app.bash_tools", &["provider = \"vercel\""]);
    let (token, team, project) = (("VERCEL_TOKEN", "t"), ("VERCEL_TEAM_ID", "m"), ("VERCEL_PROJECT_ID", "p"));
    let oidc = format!("e30.{}.x", BASE64_URL_SAFE_NO_PAD.encode(r#"{"owner_id":"m","project_id":"p"}"#));
    assert_eq!(errors_of(&vercel, &[ON, ("VERCEL_OIDC_TOKEN", &oidc)]), [""; 0]);
    let garbage = errors_of(&vercel, &[ON, ("VERCEL_OIDC_TOKEN", "jwt")]);
    assert!(garbage[0].contains("VERCEL_OIDC_TOKEN is not enough for Vercel"), "{garbage:?}");
    assert_eq!(errors_of(&vercel, &[ON, token, team, project]), [""; 0]);
    assert_eq!(errors_of(&vercel, &[ON, ("VERCEL_API_KEY", "t"), ("VERCEL_ORG_ID", "m"), project]), [""; 0]);
    assert!(errors_of(&vercel, &[ON])[0].contains("set VERCEL_OIDC_TOKEN, or VERCEL_TOKEN with"));
    let some = errors_of(&vercel, &[ON, token]);
    assert!(
        some[0].contains("the environment's VERCEL_TEAM_ID") && some[0].contains("VERCEL_PROJECT_ID"),
        "{some:?}"
    );
    assert!(errors_of(&vercel, &[ON, token, team])[0].contains("the environment's VERCEL_PROJECT_ID"));
    let read = |all: &[(&str, &str)]| {
        let all = all.to_vec();
        let find =
            |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        config::Environment::read(Some(&tools(&vercel)), find).vercel
    };
    let whole = read(&[("VERCEL_OIDC_TOKEN", "jwt"), token, team, project]);
    assert!(whole.is_ok(), "a complete set of credentials takes precedence: {whole:?}");
}

#[test]
fn preflight_requires_the_source_of_the_seed() {
    let dir = tempfile::tempdir().unwrap();
    let upload = |root: &std::path::Path| {
        let text = file("app.bash_tools.seed", &["mode = \"upload\""]);
        text.replace("enabled", &format!("project_root = {:?}\nenabled", root.to_str().unwrap()))
    };
    assert_eq!(errors_of(&upload(dir.path()), &[ON, TOKEN]), [""; 0]);
    let gone = errors_of(&upload(&dir.path().join("gone")), &[ON, TOKEN]);
    assert!(
        gone[0].starts_with("app.bash_tools.project_root must be a directory that can be read"),
        "{gone:?}"
    );
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert_eq!(errors_of(&upload(&dir.path().join("file")), &[ON, TOKEN]).len(), 1);
    let private = file("app.bash_tools.seed", &["git_token_env = \"GIT_TOKEN\""]);
    assert_eq!(errors_of(&private, &[ON, TOKEN, ("GIT_TOKEN", "x")]), [""; 0]);
    assert!(errors_of(&private, &[ON, TOKEN])[0].starts_with("the environment's GIT_TOKEN is required"));
}

#[test]
fn no_secret_is_printed() {
    let text = file("app.bash_tools.seed", &["git_token_env = \"GIT_TOKEN\""]);
    let environment = config::Environment::read(Some(&tools(&text)), |_| Some(LONG.into()));
    assert!(environment.strong_admin_token().is_some() && environment.git_token.is_some());
    let token = LONG;
    let vercel = format!("{environment:?}").replace("team_id", "").replace("project_id", "");
    // Team and project are public: they are part of a deployment's address.
    assert_eq!(vercel.matches(token).count(), 2, "{vercel}");
}

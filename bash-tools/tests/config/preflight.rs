//! What is told before the app starts, of file, environment and disk together.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bash_tools::config::{self, preflight};

use crate::{file, tools};

/// What preflight tells of a file in an environment.
fn told(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let find =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    preflight(&tools(text), find).iter().map(ToString::to_string).collect()
}

const ON: (&str, &str) = ("REMCOCHAT_ENABLE_BASH_TOOL", "1");
const LONG: &str = "0123456789abcdef0123456789abcdef";
/// sandboxd's, on this machine.
const TOKEN: (&str, &str) = ("REMCOCHAT_ADMIN_TOKEN", "short");

#[test]
fn before_the_start_the_switch_must_be_on() {
    let good = file("app.bash_tools", &[]);
    for on in ["1", "true", "YES", " on "] {
        assert_eq!(told(&good, &[(ON.0, on), TOKEN]), [""; 0], "{on}");
    }
    let off =
        ["the environment's REMCOCHAT_ENABLE_BASH_TOOL must be 1, true, yes or on, or there are no tools"];
    assert_eq!(told(&good, &[TOKEN]), off);
    for no in ["0", "false", "", "enabled"] {
        assert_eq!(told(&good, &[(ON.0, no), TOKEN]), off, "{no}");
    }
}

#[test]
fn before_the_start_tokens_must_be_long() {
    let lan = file("app.bash_tools", &["access = \"lan\""]);
    let far = file(
        "app.bash_tools.docker",
        &["orchestrator_url = \"http://sandboxd:8080\"", "admin_token_env = \"TOKEN\""],
    );
    for (text, name) in [(&lan, "REMCOCHAT_ADMIN_TOKEN"), (&far, "TOKEN")] {
        assert_eq!(told(text, &[ON, (name, LONG)]), [""; 0], "{name}");
        let missing = told(text, &[ON]);
        assert!(
            missing.len() == 1 && missing[0].starts_with(&format!("the environment's {name} is required")),
            "{missing:?}"
        );
        let short = told(text, &[ON, (name, &LONG[1..])]);
        assert!(short.len() == 1 && short[0].contains("must have at least 32 characters"), "{short:?}");
        assert!(!short[0].contains(&LONG[1..]));
    }
    let both = lan.replace("127.0.0.1:8080", "sandboxd:8080");
    assert_eq!(told(&both, &[ON]).len(), 1, "one variable for both is told once");
    for near in ["http://localhost:1", "http://127.0.0.1", "http://[::1]:8080"] {
        let near = file("app.bash_tools.docker", &[&format!("orchestrator_url = \"{near}\"")]);
        assert_eq!(told(&near, &[ON, TOKEN]), [""; 0]);
        assert!(told(&near, &[ON])[0].contains("REMCOCHAT_ADMIN_TOKEN is required because sandboxd"));
    }
}

#[test]
fn before_the_start_vercel_must_know_us() {
    let vercel = file("app.bash_tools", &["provider = \"vercel\""]);
    let (token, team, project) = (("VERCEL_TOKEN", "t"), ("VERCEL_TEAM_ID", "m"), ("VERCEL_PROJECT_ID", "p"));
    let oidc = format!("e30.{}.x", BASE64_URL_SAFE_NO_PAD.encode(r#"{"owner_id":"m","project_id":"p"}"#));
    assert_eq!(told(&vercel, &[ON, ("VERCEL_OIDC_TOKEN", &oidc)]), [""; 0]);
    let garbage = told(&vercel, &[ON, ("VERCEL_OIDC_TOKEN", "jwt")]);
    assert!(garbage[0].contains("VERCEL_OIDC_TOKEN is not enough for Vercel"), "{garbage:?}");
    assert_eq!(told(&vercel, &[ON, token, team, project]), [""; 0]);
    assert_eq!(told(&vercel, &[ON, ("VERCEL_API_KEY", "t"), ("VERCEL_ORG_ID", "m"), project]), [""; 0]);
    assert!(told(&vercel, &[ON])[0].contains("set VERCEL_OIDC_TOKEN, or VERCEL_TOKEN with"));
    let some = told(&vercel, &[ON, token]);
    assert!(
        some[0].contains("the environment's VERCEL_TEAM_ID") && some[0].contains("VERCEL_PROJECT_ID"),
        "{some:?}"
    );
    assert!(told(&vercel, &[ON, token, team])[0].contains("the environment's VERCEL_PROJECT_ID"));
    let read = |all: &[(&str, &str)]| {
        let all = all.to_vec();
        let find =
            |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        config::Environment::read(Some(&tools(&vercel)), find).vercel
    };
    let whole = read(&[("VERCEL_OIDC_TOKEN", "jwt"), token, team, project]);
    assert!(whole.is_ok(), "what is all there goes before: {whole:?}");
}

#[test]
fn before_the_start_there_must_be_something_to_begin_with() {
    let dir = tempfile::tempdir().unwrap();
    let upload = |root: &std::path::Path| {
        let text = file("app.bash_tools.seed", &["mode = \"upload\""]);
        text.replace("enabled", &format!("project_root = {:?}\nenabled", root.to_str().unwrap()))
    };
    assert_eq!(told(&upload(dir.path()), &[ON, TOKEN]), [""; 0]);
    let gone = told(&upload(&dir.path().join("gone")), &[ON, TOKEN]);
    assert!(
        gone[0].starts_with("app.bash_tools.project_root must be a directory that can be read"),
        "{gone:?}"
    );
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert_eq!(told(&upload(&dir.path().join("file")), &[ON, TOKEN]).len(), 1);
    let private = file("app.bash_tools.seed", &["git_token_env = \"GIT_TOKEN\""]);
    assert_eq!(told(&private, &[ON, TOKEN, ("GIT_TOKEN", "x")]), [""; 0]);
    assert!(told(&private, &[ON, TOKEN])[0].starts_with("the environment's GIT_TOKEN is required"));
}

#[test]
fn nothing_secret_is_printed() {
    let text = file("app.bash_tools.seed", &["git_token_env = \"GIT_TOKEN\""]);
    let environment = config::Environment::read(Some(&tools(&text)), |_| Some(LONG.into()));
    assert!(environment.strong_admin_token().is_some() && environment.git_token.is_some());
    let token = LONG;
    let vercel = format!("{environment:?}").replace("team_id", "").replace("project_id", "");
    // Team and project are names, and known to whoever sees a deployment's address.
    assert_eq!(vercel.matches(token).count(), 2, "{vercel}");
}

//! Every key with every kind of invalid value.

use crate::{file, only_fault};

/// Table, line, and words of the error.
const WRONG: &[(&str, &str, &str)] = &[
    ("app.bash_tools", "enabled = \"yes\"", "must be true or false, not a string"),
    ("app.bash_tools", "provider = \"podman\"", "must be \"vercel\" or \"docker\", not \"podman\""),
    ("app.bash_tools", "provider = 1", "must be a string, not a whole number"),
    ("app.bash_tools", "access = \"everybody\"", "must be \"localhost\" or \"lan\", not \"everybody\""),
    ("app.bash_tools", "trusted_proxies = \"10.0.0.1\"", "must be an array, not a string"),
    ("app.bash_tools", "trusted_proxies = [\"10.0.0.0/33\"]", "an address or a range of addresses"),
    ("app.bash_tools", "trusted_proxies = [\"0.0.0.0/0\"]", "not \"0.0.0.0/0\""),
    ("app.bash_tools", "project_root = \"here\"", "must be an absolute path, not \"here\""),
    ("app.bash_tools", "max_stdout_chars = 199", "must be from 200 to 200000 characters, not 199"),
    ("app.bash_tools", "max_stdout_chars = 200001", "not 200001"),
    ("app.bash_tools", "max_stderr_chars = 199", "must be from 200 to 200000 characters, not 199"),
    ("app.bash_tools", "max_stderr_chars = 200001", "not 200001"),
    ("app.bash_tools", "timeout_ms = 999", "must be from 1000 to 300000 milliseconds, not 999"),
    ("app.bash_tools", "timeout_ms = 300001", "not 300001"),
    ("app.bash_tools", "timeout_ms = 30.0", "must be a whole number, not a number with a fraction"),
    ("app.bash_tools", "timeout_ms = -1", "not -1"),
    ("app.bash_tools", "timeout_ms = 99999999999999999999999999", "not 99999999999999999999999999"),
    ("app.bash_tools", "max_concurrent_sandboxes = 0", "must be from 1 to 10 sandboxes, not 0"),
    ("app.bash_tools", "max_concurrent_sandboxes = 11", "not 11"),
    ("app.bash_tools", "idle_ttl_ms = 9999", "must be from 10000 to 21600000 milliseconds, not 9999"),
    ("app.bash_tools", "idle_ttl_ms = 21600001", "not 21600001"),
    ("app.bash_tools.docker", "orchestrator_url = -", "is required if provider is \"docker\""),
    ("app.bash_tools.docker", "orchestrator_url = \"\"", "is required if provider is \"docker\""),
    ("app.bash_tools.docker", "orchestrator_url = \"127.0.0.1:8080\"", "must be an http or https URL"),
    ("app.bash_tools.docker", "orchestrator_url = \"ftp://127.0.0.1\"", "not \"ftp://127.0.0.1\""),
    ("app.bash_tools.docker", "orchestrator_url = \"http://me:pass@sandboxd\"", "without a name, password"),
    ("app.bash_tools.docker", "orchestrator_url = \"http://sandboxd/?a=b\"", "query or fragment"),
    ("app.bash_tools.docker", "orchestrator_url = true", "must be a string, not true or false"),
    ("app.bash_tools.docker", "admin_token_env = \" \"", "must not be empty"),
    ("app.bash_tools.docker", "admin_token_env = \"two words\"", "the name of an environment variable"),
    (
        "app.bash_tools.docker",
        "network_mode = \"host\"",
        "must be \"default\" or \"allowlist\" or \"none\", not \"host\"",
    ),
    ("app.bash_tools.docker", "network_mode = \"open\"", "not \"open\""),
    ("app.bash_tools.docker", "network_allow = \"a.example\"", "must be an array, not a string"),
    ("app.bash_tools.docker", "network_allow = [\"https://a.example\"]", "must be a host, such as"),
    ("app.bash_tools.docker", "network_allow = [\"a.example\", \"\"]", "must be a host, such as"),
    ("app.bash_tools.docker", "network_allow = [1]", "must be a string, not a whole number"),
    ("app.bash_tools.docker", "memory_mb = 255", "must be from 256 to 16384 MiB, not 255"),
    ("app.bash_tools.docker", "memory_mb = 16385", "not 16385"),
    ("app.bash_tools.docker", "checkpoints = 1001", "must be from 0 to 1000 checkpoints, not 1001"),
    (
        "app.bash_tools.sandbox",
        "runtime = \"node22\"",
        "must be \"node24\" or \"python3.13\", not \"node22\"",
    ),
    ("app.bash_tools.sandbox", "runtime = \"\"", "must not be empty"),
    ("app.bash_tools.sandbox", "ports = [1, 2, 3, 4, 5]", "must have at most 4 entries, not 5"),
    ("app.bash_tools.sandbox", "ports = [3000, 0]", "must be from 1 to 65535, not 0"),
    ("app.bash_tools.sandbox", "ports = [65536]", "not 65536"),
    ("app.bash_tools.sandbox", "ports = [\"http\"]", "must be a whole number, not a string"),
    ("app.bash_tools.sandbox", "ports = 3000", "must be an array, not a whole number"),
    ("app.bash_tools.sandbox", "vcpus = 0", "must be from 1 to 8 processors, not 0"),
    ("app.bash_tools.sandbox", "vcpus = 9", "not 9"),
    (
        "app.bash_tools.sandbox",
        "timeout_ms = 29999",
        "must be from 30000 to 18000000 milliseconds, not 29999",
    ),
    ("app.bash_tools.sandbox", "timeout_ms = 18000001", "not 18000001"),
    ("app.bash_tools.seed", "mode = \"svn\"", "must be \"git\" or \"upload\" or \"none\", not \"svn\""),
    ("app.bash_tools.seed", "git_url = -", "is required if seed.mode is \"git\""),
    ("app.bash_tools.seed", "git_url = \"git@github.com:a/b\"", "must be an https URL of a git repository"),
    ("app.bash_tools.seed", "git_url = \"--upload-pack=x\"", "not \"--upload-pack=x\""),
    (
        "app.bash_tools.seed",
        "git_url = \"http://git.lan/x\"",
        "cannot be combined with app.bash_tools.seed.git_allow_http",
    ),
    ("app.bash_tools.seed", "git_revision = \"-b\"", "must be the name of a branch or tag, or a commit"),
    ("app.bash_tools.seed", "git_revision = 7", "must be a string, not a whole number"),
    ("app.bash_tools.seed", "git_token_env = \"ghp-secret\"", "not the secret itself"),
    ("app.bash_tools.seed", "git_allow_http = 1", "must be true or false, not a whole number"),
    ("app.bash_tools.seed", "upload_include = \"**/*.{ts\"", "must be a glob"),
    ("app.bash_tools.seed", "upload_include = \"\"", "must not be empty"),
    ("app.bash_tools.seed", "max_bytes = 65535", "must be from 65536 to 68719476736 bytes, not 65535"),
    ("app.bash_tools.seed", "max_bytes = 68719476737", "not 68719476737"),
];

#[test]
fn every_invalid_key_has_its_own_error() {
    for (table, line, reported) in WRONG {
        let key = line.split(['=', ' ']).next().unwrap();
        let text = file(table, &[line]);
        let (path, sentence) = only_fault(&text);
        let index = path.find('[').unwrap_or(path.len());
        assert_eq!(path[..index], format!("{table}.{key}"), "{line}");
        assert!(sentence.contains(reported), "{line}: {sentence}");
        let at = text
            .lines()
            .position(|there| there == *line || there == format!("[{table}]") && line.ends_with("= -"));
        assert!(sentence.starts_with(&format!("line {}: ", at.unwrap() + 1)), "{line}: {sentence}\n{text}");
    }
}

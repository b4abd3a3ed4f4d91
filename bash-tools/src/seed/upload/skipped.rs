//! Files that are never uploaded, whatever the operator includes: build results, dependencies, and likely secrets.
//!
//! A list of names cannot guarantee that no secret is uploaded. It skips names that usually contain one. Names are
//! compared at any depth and ignoring case. `data` is in the list because it contains the app's own database. A
//! project must not keep sources in a directory of that name.

use std::path::Path;
use std::sync::LazyLock;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Directories, and links in their place.
const DIRECTORIES: [&str; 5] = [".git", "node_modules", ".next", "data", "test-results"];

/// Directories and files.
const SKIPPED: &[&str] = &[
    // In a worktree, this is a file that refers to another path of this machine.
    ".git",
    // Secrets of programs.
    ".env*",
    "*.env",
    "secrets",
    "*credentials*.json",
    "client_secret*.json",
    "service{-account,_account,account}*.json",
    ".aws",
    ".azure",
    ".config/{gcloud,gh,hub,op}",
    ".docker/config.json",
    ".dockercfg",
    ".boto",
    ".s3cfg",
    ".kube",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
    "*.tfvars.json",
    ".npmrc",
    ".yarnrc.yml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".config/{rclone,sops,doctl,hcloud}",
    ".pip/pip.conf",
    ".netrc",
    "_netrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".composer/auth.json",
    ".git-credentials",
    ".gitconfig",
    ".htpasswd",
    ".my.cnf",
    ".mylogin.cnf",
    ".pgpass",
    ".password-store",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    // Keys.
    ".ssh",
    ".gnupg",
    "id_{rsa,dsa,ecdsa,ed25519,xmss}*",
    "*_{rsa,dsa,ecdsa,ed25519}",
    "ssh_host_*_key",
    "*.pem",
    "*.pem.*",
    "*.key",
    "*.key{~,.bak,.old,.orig}",
    "*.p8",
    "*.p12",
    "*.pfx",
    "*.pkcs12",
    "*.jks",
    "*.bks",
    "*.keystore",
    "*.ppk",
    "*.kdb",
    "*.kdbx",
    "*.gpg",
    "*.age",
    "*.ovpn",
];

static GLOBS: LazyLock<GlobSet> = LazyLock::new(|| {
    let mut globs = GlobSetBuilder::new();
    for name in SKIPPED {
        let glob =
            GlobBuilder::new(&format!("**/{name}")).literal_separator(true).case_insensitive(true).build();
        globs.add(glob.expect("the list is tested"));
    }
    globs.build().expect("the list is tested")
});

/// Whether a file, or a directory with its content, is skipped. `path` is relative to the root.
pub(super) fn is_skipped(path: &Path, is_file: bool) -> bool {
    let Some(name) = path.file_name() else { return false };
    if !is_file && DIRECTORIES.iter().any(|directory| name.eq_ignore_ascii_case(directory)) {
        return true;
    }
    if name.eq_ignore_ascii_case(".env.example") {
        return false;
    }
    // Directory in which this crate records the seed.
    if path == Path::new(".remcochat") {
        return true;
    }
    GLOBS.is_match(path) || is_key(name.to_string_lossy().as_ref())
}

/// Whether a name begins with `id_` and has no extension. ssh-keygen asks for a name, and users often keep the
/// beginning of its suggestion. `id_map.ts` is a source file.
fn is_key(name: &str) -> bool {
    let is_prefixed = name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("id_"));
    is_prefixed && !name.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_results_and_secrets_are_skipped_at_any_depth_and_in_any_case() {
        let skipped = [
            ".git",
            "node_modules",
            ".next",
            "data",
            "test-results",
            ".env",
            ".env.local",
            ".envrc",
            "x.pem",
            "x.key",
            "secrets",
            ".ssh",
            "id_rsa",
            "id_ed25519",
            "id_rsa.bak",
            "id_work",
            ".npmrc",
            ".netrc",
            ".pypirc",
            ".aws",
            ".gnupg",
            ".kube",
            "x.p12",
            "x.pfx",
            "x.jks",
            "x.keystore",
            ".docker/config.json",
            ".cargo/credentials.toml",
            ".git-credentials",
            ".config/gcloud",
            "prod.env",
            "gcp-credentials.json",
            "client_secret_1.json",
            "service-account.json",
            "serviceAccountKey.json",
            "prod.tfvars",
            "deploy_rsa",
            "x.pem.bak",
            "x.key~",
            ".yarnrc.yml",
            ".m2/settings.xml",
        ];
        for path in skipped {
            for path in [path.to_owned(), path.to_uppercase(), format!("a/B/{path}")] {
                assert!(is_skipped(Path::new(&path), false), "{path}");
            }
        }
        assert!(is_skipped(Path::new(".remcochat"), false));
    }

    #[test]
    fn source_files_are_not_skipped() {
        let sources = [
            ".env.example",
            "a/.ENV.example",
            ".gitignore",
            "environment.ts",
            "id_map.ts",
            "identity",
            "keys.ts",
            "database/x",
            "data.json",
            "secrets.ts",
            "pem.rs",
            ".docker/Dockerfile",
            "config.json",
            ".cargo/config.toml",
            "a/.remcochat",
            ".github",
            "monkey",
            "package-lock.json",
            "keys.keyboard",
            "environment.json",
            "accounts.json",
        ];
        for path in sources {
            assert!(!is_skipped(Path::new(path), true), "{path}");
        }
        assert!(!is_skipped(Path::new("data"), true), "a file of that name");
    }
}

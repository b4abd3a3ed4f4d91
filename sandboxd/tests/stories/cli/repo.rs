//! `sandboxd repo`, run as a separate process in projects that use packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;
use test_git::GitServer;
use tokio::time::timeout;

use crate::repositories::home;
use crate::support::harness::{Daemon, SOON};

/// Three commits, each with a tag for the version in `file`.
const VERSIONS: &str = "for version in 1.0.0 2.0.0 6.0.0; do
        echo $version >file; git add .; git commit -qm $version; git tag v$version
    done";

/// A project of a user, and the directory of the user's cache.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("project/.git")).unwrap();
        Self(dir)
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("project")
    }

    fn cache(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn with(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.dir().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Runs `sandboxd repo` in the project.
    async fn repo(&self, daemon: &Daemon, args: &[&str]) -> Output {
        let mut command = daemon.home.program(&["repo", "--url", &daemon.base]);
        command.args(args).current_dir(self.dir()).env("XDG_CACHE_HOME", self.cache());
        timeout(SOON, command.output()).await.expect("the program does not end").unwrap()
    }

    /// Standard output of a package's `file`, and the line about its version.
    async fn version(&self, daemon: &Daemon, package: &str) -> (String, String) {
        let output = self.repo(daemon, &[package, "--", "cat", "file"]).await;
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{package}: {errors}");
        let line = errors.replace(self.dir().to_str().unwrap(), "");
        (String::from_utf8(output.stdout).unwrap(), line)
    }
}

/// Lock files that package managers wrote, for a project that uses `is-number` 6.0.0, and `is-odd` 2.0.0 as `odd`.
fn fixture(name: &str) -> Vec<u8> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/cli/fixtures");
    fs::read(fixtures.join(name)).unwrap()
}

/// A server with the versions of the packages of the fixtures.
async fn registry() -> Option<GitServer> {
    let server = GitServer::start().await?;
    server.repository("owner/name", VERSIONS).await;
    for (package, version) in
        [("is-number", "latest"), ("is-number", "1.0.0"), ("is-number", "6.0.0"), ("is-odd", "2.0.0")]
    {
        let number = if version == "latest" { "2.0.0" } else { version };
        let repository = r#""repository":"https://git.example/owner/name.git""#;
        server.publish(package, version, &format!(r#"{{"version":"{number}",{repository}}}"#));
    }
    Some(server)
}

fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    for word in words {
        assert!(errors.contains(word), "no {word} in {errors}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_has_the_version_that_the_project_uses() {
    let Some(server) = registry().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    for (name, lock_file) in [
        ("npm-1.json", "package-lock.json"),
        ("npm-2.json", "npm-shrinkwrap.json"),
        ("npm-3.json", "package-lock.json"),
        ("bun.lock", "bun.lock"),
        ("bun-2.lockb", "bun.lockb"),
        ("bun-3.lockb", "bun.lockb"),
        ("pnpm-5.yaml", "pnpm-lock.yaml"),
        ("pnpm-6.yaml", "pnpm-lock.yaml"),
        ("pnpm-9.yaml", "pnpm-lock.yaml"),
        ("yarn-1.lock", "yarn.lock"),
        ("yarn-4.lock", "yarn.lock"),
    ] {
        let project =
            Project::new().with("package.json", fixture("package.json")).with(lock_file, fixture(name));
        let (content, line) = project.version(&daemon, "is-number").await;
        assert_eq!(content, "6.0.0\n", "{name}");
        assert_eq!(line, format!("sandboxd: is-number 6.0.0, from /{lock_file}\n"), "{name}");
        let (content, line) = project.version(&daemon, "odd").await;
        assert_eq!(content, "2.0.0\n", "{name}");
        assert_eq!(line, format!("sandboxd: odd is is-odd 2.0.0, from /{lock_file}\n"), "{name}");
    }

    let installed = Project::new()
        .with("node_modules/is-number/package.json", r#"{"name":"is-number","version":"1.0.0"}"#)
        .with("package-lock.json", fixture("npm-3.json"));
    let (content, line) = installed.version(&daemon, "is-number").await;
    let wanted = "sandboxd: is-number 1.0.0, from /node_modules/is-number/package.json\n";
    assert_eq!((content.as_str(), line.as_str()), ("1.0.0\n", wanted));

    let (content, line) = Project::new().version(&daemon, "is-number").await;
    let wanted = "sandboxd: no version of is-number found in this project; using the latest\n";
    assert_eq!((content.as_str(), line.as_str()), ("2.0.0\n", wanted));
    assert_eq!(server.fetches(), 3, "each commit was fetched once");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_an_alias_or_a_directory_in_the_manifest_is_understood() {
    let Some(server) = registry().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let manifest = r#"{"dependencies":{"is-number":"^6.0.0","odd":"npm:is-odd@2.0.0","own":"workspace:*","tool":"1.x"},
        "devDependencies":{"other":"github:owner/name"}}"#;
    let project = Project::new().with("package.json", manifest);
    let (content, line) = project.version(&daemon, "is-number").await;
    let wanted = "sandboxd: is-number 6.0.0, the lowest version of ^6.0.0 in /package.json\n";
    assert_eq!((content.as_str(), line.as_str()), ("6.0.0\n", wanted));
    let (content, line) = project.version(&daemon, "odd").await;
    let wanted = "sandboxd: odd is is-odd 2.0.0, from /package.json\n";
    assert_eq!((content.as_str(), line.as_str()), ("2.0.0\n", wanted));
    for (name, said) in [("own", "workspace:*"), ("other", "github:owner/name"), ("tool", "1.x")] {
        let output = project.repo(&daemon, &[name, "--", "true"]).await;
        assert_fails(&output, 1, &[name, said, "package.json", "-v"]);
    }
    // What the user names precedes what the project has.
    let output = project.repo(&daemon, &["is-number", "-v", "1.0.0", "--", "cat file"]).await;
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"1.0.0\n"[..], &b""[..]));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_files_of_a_project_are_skipped() {
    let Some(server) = registry().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let deep = "[".repeat(1_000_000);
    let project = Project::new()
        .with("node_modules/is-number/package.json", r#"{"version":"6.0.0/../../1.0.0"}"#)
        .with("package-lock.json", r#"{"packages":{"node_modules/is-number":[]}}"#)
        .with("bun.lock", &deep)
        .with("bun.lockb", "#!/usr/bin/env bun\nbun-lockfile-format-v0\n\x03\0\0\0\u{1b}[2J")
        .with("pnpm-lock.yaml", "&a [*a, *a]: \u{1b}[2J")
        .with("yarn.lock", "is-number@^6.0.0:\n  version \"../../1.0.0\"\n")
        .with("package.json", r#"{"name":"\u001b[2J","dependencies":{"is-number":"6.0.0"}}"#);
    fs::File::create(project.dir().join("npm-shrinkwrap.json")).unwrap().set_len(1 << 40).unwrap();
    fs::write(project.dir().parent().unwrap().join("package.json"), r#"{"version":"1.0.0"}"#).unwrap();
    // Yarn's file has an entry, but no version that a registry can have.
    let output = project.repo(&daemon, &["is-number", "--", "cat file"]).await;
    let skipped = ["no valid version", "npm-shrinkwrap.json is longer than", "bun.lock: ", "bun.lockb: "];
    assert_fails(&output, 1, &skipped);
    assert!(!output.stderr.contains(&0x1b), "control characters are escaped");
    fs::remove_file(project.dir().join("yarn.lock")).unwrap();
    let (content, line) = project.version(&daemon, "is-number").await;
    assert_eq!(content, "6.0.0\n");
    assert!(line.ends_with("sandboxd: is-number 6.0.0, from /package.json\n"), "{line}");
    // Not the name of a package, so nothing is read.
    for name in ["../package.json", "..", "@scope/..", "@../x", ".bin"] {
        assert_fails(&project.repo(&daemon, &[name, "--", "true"]).await, 1, &["repository"]);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_and_the_exit_code_are_those_of_the_command() {
    let Some(server) = registry().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let project = Project::new();
    let script = "cat file; echo err >&2; exit 7";
    for args in
        [&["owner/name", "-r", "v1.0.0"][..], &["https://git.example/owner/name", "--version", "1.0.0"]]
    {
        for command in [&[script][..], &["bash", "-c", script]] {
            let output = project.repo(&daemon, &[args, &["--"], command].concat()).await;
            assert_eq!(output.status.code(), Some(7), "{output:?}");
            assert_eq!(
                (output.stdout.as_slice(), output.stderr.as_slice()),
                (&b"1.0.0\n"[..], &b"err\n"[..])
            );
        }
    }
    let words = project.repo(&daemon, &["owner/name", "--", "printf", "%s|", "it's", "$HOME", ""]).await;
    assert_eq!(words.stdout, b"it's|$HOME||");
    let json =
        project.repo(&daemon, &["owner/name", "--json", "-r", "v1.0.0", "--", "cat file; exit 3"]).await;
    assert_eq!(json.status.code(), Some(3));
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["stdout"], &json["exitCode"], &json["tags"][0]),
        (&"1.0.0\n".into(), &3.into(), &"v1.0.0".into())
    );
    let missing = project.repo(&daemon, &["owner/name", "--", "no-such-program", "x"]).await;
    assert_eq!(missing.status.code(), Some(127));
    let slow = project.repo(&daemon, &["owner/name", "--timeout", "1", "--", "sleep 60"]).await;
    assert_fails(&slow, 124, &["Timeout"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_output_is_cut_and_saved_as_a_whole() {
    let Some(server) = registry().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let project = Project::new();
    let whole: String = (1..=5000).map(|number| format!("{number}\n")).collect();
    for (args, limit) in [(&["--max-tokens", "100"][..], 800), (&["--max-tokens", "2000", "--json"], 12_000)]
    {
        let output =
            project.repo(&daemon, &[&["owner/name"], args, &["--", "seq 5000; exit 4"]].concat()).await;
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let (printed, errors) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(printed.len() < limit && printed.contains("5000"), "{}", printed.len());
        let path = errors.trim().strip_prefix("sandboxd: the whole output is in ").unwrap();
        assert!(Path::new(path).starts_with(project.cache()), "{path}");
        assert!(printed.contains(path), "the text names the file of this machine: {printed}");
        assert_eq!(fs::read_to_string(path).unwrap(), whole);
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "others cannot read it");
    }
    // The daemon keeps 64 MiB of an output.
    let script = "head -c 70000000 /dev/zero | tr '\\0' x";
    let endless = project.repo(&daemon, &["owner/name", "--max-tokens", "10", "--", script]).await;
    assert_fails(&endless, 0, &["what was kept of the output, 64 MiB, is in "]);
    // A short output is not saved.
    let short = project.repo(&daemon, &["owner/name", "--", "cat file"]).await;
    assert_eq!((short.stdout.as_slice(), short.stderr.as_slice()), (&b"6.0.0\n"[..], &b""[..]));
    assert_eq!(fs::read_dir(project.cache().join("sandboxd/outputs")).unwrap().count(), 3);

    // If it cannot be saved, the command has run nevertheless.
    fs::remove_dir_all(project.cache()).unwrap();
    fs::write(project.cache(), "").unwrap();
    let unsaved =
        project.repo(&daemon, &["owner/name", "--max-tokens", "10", "--", "seq 5000; exit 4"]).await;
    assert_fails(&unsaved, 4, &["is not saved", "/vercel/sandbox/outputs/", "sbx_"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_warnings_say_what_to_do() {
    let Some(server) = registry().await else { return };
    let incomplete = "echo '*.bin filter=lfs -text' >.gitattributes; git add .; git commit -qm x
        printf 'version https://git-lfs.github.com/spec/v1\\n' >large.bin; git add .; git commit -qm y";
    server.repository("owner/incomplete", incomplete).await;
    let daemon = Daemon::start_in(home(&server)).await;
    let project = Project::new();
    let repo = async |args: &[&str]| project.repo(&daemon, args).await;
    let warned = repo(&["owner/incomplete", "--", "true"]).await;
    assert_fails(&warned, 0, &["Git LFS"]);
    assert_fails(&repo(&["owner/absent", "--", "true"]).await, 1, &["owner/absent", "SANDBOXD_GIT_TOKENS"]);
    assert_fails(&repo(&["absent", "--", "true"]).await, 1, &["absent", "spelling"]);
    assert_fails(&repo(&["is-number", "-v", "9.9.9", "--", "true"]).await, 1, &["is-number", "-v", "-r"]);
    assert_fails(&repo(&["owner/name", "-r", "absent", "--", "true"]).await, 1, &["owner/name", "ls-remote"]);
    assert_fails(&repo(&["file:///etc", "--", "true"]).await, 1, &["repository", "https://"]);
    for wrong in [
        &["owner/name", "-r", "main", "-v", "1.0.0", "--", "true"][..],
        &["owner/name", "ls"],
        &["owner/name", "--"],
        &["owner/name", "--max-tokens", "0", "--", "ls"],
        &["owner/name", "--max-tokens", "250001", "--", "ls"],
    ] {
        assert_fails(&repo(wrong).await, 2, &["--help"]);
    }
    daemon.stop().await;
}

//! The lock files in `fixtures` were written by the package managers themselves, for the `package.json` there and the
//! workspace `packages/member` with `member.json`: npm 11 (formats 1 to 3), bun 1.1.45 and 1.4.5, pnpm 7, 8 and 9, Yarn 1.22
//! and 4.18.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// Name of each file in `fixtures`, and of the lock file that it is.
const LOCK_FILES: [(&str, &str); 11] = [
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
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A directory that is the root of a git repository, so that no file above it is read.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        Self(dir)
    }

    fn with(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn with_fixture(self, path: &str, name: &str) -> Self {
        let content = fs::read(fixture(name)).unwrap();
        self.with(path, content)
    }

    /// What is found from a directory: a version, `latest`, or an error.
    fn find(&self, dir: &str, name: &str) -> String {
        let name = PackageName::parse(name).unwrap();
        match find_from(&self.0.path().join(dir), &name) {
            Ok(Dependency::Used { package, version, .. }) => format!("{package} {}", version.as_str()),
            Ok(Dependency::Latest { package, .. }) => format!("{package} latest"),
            Err(error) => format!("error: {error}"),
        }
    }

    fn line(&self, name: &str) -> String {
        let name = PackageName::parse(name).unwrap();
        let line = find_from(self.0.path(), &name).unwrap().to_string();
        line.replace(self.0.path().to_str().unwrap(), "")
    }
}

fn locked_project(name: &str, lock_file: &str) -> Project {
    let project = Project::new().with_fixture("package.json", "package.json");
    let project = project.with_fixture("packages/member/package.json", "member.json");
    project.with_fixture(lock_file, name)
}

#[test]
fn every_lock_file_has_the_version_of_a_dependency() {
    for (name, lock_file) in LOCK_FILES {
        let project = locked_project(name, lock_file);
        for (dir, package, wanted) in [
            ("", "is-number", "is-number 6.0.0"),
            ("", "is-odd", "is-odd 1.0.0"),
            ("", "@types/ms", "@types/ms 0.7.34"),
            ("", "lodash", "lodash 1.0.0-rc.3"),
            ("", "odd", "is-odd 2.0.0"),
            ("", "absent", "absent latest"),
            ("packages/member", "is-number", "is-number 7.0.0"),
            ("packages/member/src", "is-number", "is-number 7.0.0"),
            ("packages/member", "is-odd", "is-odd 1.0.0"),
        ] {
            assert_eq!(project.find(dir, package), wanted, "{name}: {package} in {dir:?}");
        }
        assert!(project.find("", "member").contains("workspace:*"), "{name}");
        assert_eq!(project.find("", "kind-of"), "kind-of 3.2.2", "{name}: of a dependency");
    }
}

#[test]
fn a_lock_file_without_a_manifest_says_what_is_not_of_the_registry() {
    for (name, lock_file) in LOCK_FILES {
        // Yarn 1 does not list workspaces.
        if name == "yarn-1.lock" {
            continue;
        }
        let project = Project::new().with_fixture(lock_file, name);
        assert!(project.find("", "member").starts_with("error: member is "), "{name}");
        assert_eq!(project.find("", "odd"), "is-odd 2.0.0", "{name}");
    }
}

#[test]
fn the_installed_package_precedes_lock_files_and_ranges() {
    let project = locked_project("npm-3.json", "package-lock.json")
        .with("node_modules/is-number/package.json", r#"{"name":"is-number","version":"6.1.0"}"#)
        .with("node_modules/odd/package.json", r#"{"name":"is-odd","version":"2.1.0"}"#)
        .with("packages/member/node_modules/is-number/package.json", r#"{"version":"7.1.0"}"#);
    assert_eq!(project.find("", "is-number"), "is-number 6.1.0");
    assert_eq!(project.find("packages/member", "is-number"), "is-number 7.1.0");
    assert_eq!(project.find("packages/member", "odd"), "is-odd 2.1.0");
    assert_eq!(project.line("odd"), "odd is is-odd 2.1.0, from /node_modules/odd/package.json");
    assert_eq!(project.line("is-odd"), "is-odd 1.0.0, from /package-lock.json");
}

#[test]
fn a_link_leads_to_an_installed_package_or_to_a_directory() {
    let store = "node_modules/.pnpm/tool@1.0.0/node_modules/tool";
    let project = Project::new()
        .with(&format!("{store}/package.json"), r#"{"version":"1.0.0"}"#)
        .with("packages/own/package.json", r#"{"name":"own","version":"2.0.0"}"#);
    let modules = project.0.path().join("node_modules");
    symlink(".pnpm/tool@1.0.0/node_modules/tool", modules.join("tool")).unwrap();
    symlink("../packages/own", modules.join("own")).unwrap();
    assert_eq!(project.find("", "tool"), "tool 1.0.0");
    assert!(project.find("", "own").contains("linked to "));
}

#[test]
fn a_range_is_used_if_nothing_else_is_known() {
    let manifest = r#"{
        "dependencies": {"exact": "1.2.3", "caret": "^1.2.3", "alias": "npm:@scope/real@~2.0.1", "any": "*", "tag": "next"},
        "devDependencies": {"partial": "1.x", "git": "github:owner/name", "short": "owner/name", "file": "file:../x"},
        "optionalDependencies": {"link": "link:./x", "url": "https://a.example/x.tgz", "catalog": "catalog:"},
        "peerDependencies": {"peer": ">=1.0.0 <3", "caret": "^9.0.0", "wrong": 7, "ws": "workspace:^1.0.0"}
    }"#;
    let project = Project::new().with("package.json", manifest);
    for (name, wanted) in [
        ("exact", "exact 1.2.3"),
        ("caret", "caret 1.2.3"),
        ("alias", "@scope/real 2.0.1"),
        ("any", "any latest"),
        ("tag", "tag next"),
        ("peer", "peer 1.0.0"),
        ("wrong", "wrong latest"),
    ] {
        assert_eq!(project.find("deep/below", name), wanted);
    }
    for name in ["git", "short", "file", "link", "url", "catalog", "ws"] {
        let error = project.find("", name);
        assert!(
            error.starts_with("error: ") && error.contains("no version of the registry"),
            "{name}: {error}"
        );
    }
    assert!(project.find("", "partial").contains("1.x in /"));
    assert_eq!(project.line("caret"), "caret 1.2.3, the lowest version of ^1.2.3 in /package.json");
    assert_eq!(project.line("absent"), "no version of absent found in this project; using the latest");
}

#[test]
fn the_search_ends_at_the_root_of_the_git_repository() {
    let project = Project::new()
        .with("package.json", r#"{"dependencies":{"tool":"1.0.0"}}"#)
        .with("inner/.git/config", "")
        .with("inner/package.json", "{}");
    assert_eq!(project.find("inner/src", "tool"), "tool latest");
    assert_eq!(project.find("other/src", "tool"), "tool 1.0.0");
}

#[test]
fn a_range_selects_among_the_versions_of_yarn() {
    let lock = "tool@^1.0.0, tool@^1.1.0:\n  version \"1.9.0\"\n\n\"tool@^2.0.0\":\n  version \"2.10.0\"\n\ntool@2.9.0:\n  version \"2.9.0\"\n";
    let project = |range: &str| {
        let manifest = format!(r#"{{"dependencies":{{"tool":"{range}"}}}}"#);
        Project::new().with("yarn.lock", lock).with("package.json", manifest)
    };
    assert_eq!(project("^1.1.0").find("", "tool"), "tool 1.9.0");
    assert_eq!(project("2.9.0").find("", "tool"), "tool 2.9.0");
    assert_eq!(Project::new().with("yarn.lock", lock).find("", "tool"), "tool 2.10.0");
}

#[test]
fn forms_of_versions_in_pnpm_are_understood() {
    for (text, wanted) in [
        ("1.2.3", "tool 1.2.3"),
        ("1.2.3_react@18.0.0", "tool 1.2.3"),
        ("1.2.3(react@18.0.0)(@a/b@1.0.0)", "tool 1.2.3"),
        ("/@scope/my_real/1.2.3_react@18.0.0", "@scope/my_real 1.2.3"),
        ("/@scope/my_real@1.2.3(react@18.0.0)", "@scope/my_real 1.2.3"),
        ("my_real@1.2.3", "my_real 1.2.3"),
        ("link:../tool", "error"),
        ("file:tool.tgz", "error"),
        ("github.com/owner/name/0123456", "error"),
        ("https://codeload.example/owner/name/tar.gz/0123456", "error"),
        ("../../etc@1.0.0", "error"),
    ] {
        let lock = format!("lockfileVersion: 5.3\ndependencies:\n  tool: {text}\n");
        let found = Project::new().with("pnpm-lock.yaml", lock).find("", "tool");
        assert!(found.starts_with(wanted), "{text}: {found}");
    }
    let packages = "packages:\n  /tool@1.9.0(a@9.0.0): {}\n  /tool/1.10.0_a@9.0.0: {}\n  /a_tool@2.0.0: {}\n  1.11.0: {}\n";
    assert_eq!(Project::new().with("pnpm-lock.yaml", packages).find("", "tool"), "tool 1.10.0");
}

#[test]
fn a_file_that_cannot_be_used_is_skipped() {
    let deep_json = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_yaml = "- ".repeat(100_000);
    let references = "a: &a [x, x]\nb: &b [*a, *a]\ndependencies:\n  tool: *b\n";
    let cases: [(&str, &[u8]); 22] = [
        ("node_modules/tool/package.json", br#"{"version":"../../etc"}"#),
        ("node_modules/tool/package.json", br#"{"version":["1.0.0"]}"#),
        ("node_modules/tool/package.json", b"\xff"),
        ("node_modules/tool/package.json", deep_json.as_bytes()),
        ("package.json", b"[]"),
        ("package.json", br#"{"dependencies":["tool"]}"#),
        ("package-lock.json", b"null"),
        ("package-lock.json", br#"{"packages":{"node_modules/tool":7}}"#),
        ("package-lock.json", br#"{"packages":[],"dependencies":{"tool":{"version":"1.0.0"}}}"#),
        ("package-lock.json", br#"{"dependencies":{"tool":{"version":{}}}}"#),
        ("package-lock.json", deep_json.as_bytes()),
        ("bun.lock", b""),
        ("bun.lock", br#"{"packages":{"tool":["",]}, "workspaces": 7}/* "#),
        ("bun.lock", deep_json.as_bytes()),
        ("bun.lockb", b"#!/usr/bin/env bun\nbun-lockfile-format-v0\n"),
        ("bun.lockb", b"#!/usr/bin/env bun\nbun-lockfile-format-v0\n\x02\0\0\0"),
        ("pnpm-lock.yaml", b"importers: [*x]"),
        ("pnpm-lock.yaml", deep_yaml.as_bytes()),
        ("pnpm-lock.yaml", deep_json.as_bytes()),
        ("pnpm-lock.yaml", references.as_bytes()),
        ("yarn.lock", b"  version \"1.0.0\"\n\ntool@:\n\"tool@^1\":\n  version \"a b\"x\n"),
        ("yarn.lock", b"__metadata:\n  version: 6\n\"tool@npm:^1\": [7]\n"),
    ];
    for (file, content) in cases {
        let project = Project::new().with(file, content);
        let found = project.find("", "tool");
        let is_skipped = found == "tool latest" || found.starts_with("error: tool is ");
        assert!(is_skipped, "{file} {}: {found}", String::from_utf8_lossy(&content[..content.len().min(80)]));
    }
}

#[test]
fn every_cut_or_changed_binary_lock_file_is_survived() {
    let whole = fs::read(fixture("bun-3.lockb")).unwrap();
    // All of the file is searched for a name that it does not have.
    for name in ["is-number", "absent"] {
        let name = PackageName::parse(name).unwrap();
        let members = || vec!["packages/member", ""];
        let find = |lock: &[u8]| {
            bun_binary::find(lock, &wanted::Wanted { name: &name, specifier: None, members: members() })
        };
        for length in 0..whole.len() {
            let _ = find(&whole[..length]);
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] = 0xff;
            let _ = find(&changed);
        }
        assert_eq!(find(&whole).unwrap().is_some(), name.as_str() == "is-number");
    }
}

#[test]
fn a_file_that_is_too_long_or_no_file_is_skipped() {
    let project = Project::new().with("package.json", r#"{"dependencies":{"tool":"1.0.0"}}"#);
    let huge = fs::File::create(project.0.path().join("package-lock.json")).unwrap();
    huge.set_len(file::MAX_LOCK_FILE_BYTES + 1).unwrap();
    fs::create_dir(project.0.path().join("yarn.lock")).unwrap();
    let pipe = project.0.path().join("bun.lock");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    symlink("pnpm-lock.yaml", project.0.path().join("pnpm-lock.yaml")).unwrap();
    assert_eq!(project.find("", "tool"), "tool 1.0.0");
    let error =
        file::read(&project.0.path().join("package-lock.json"), file::MAX_LOCK_FILE_BYTES).unwrap_err();
    assert!(error.to_string().contains("33554432 bytes"), "{error}");
}

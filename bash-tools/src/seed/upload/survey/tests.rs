use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;

/// A directory that everyone can read. Each file contains its own path.
fn root(files: &[&str]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for file in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    root
}

fn seed(root: &Path) -> UploadSeed {
    UploadSeed {
        root: root.to_owned(),
        include: "**/*".into(),
        max_files: UploadSeed::MAX_FILES,
        max_bytes: UploadSeed::MAX_BYTES,
    }
}

fn paths(survey: &Survey) -> Vec<&str> {
    survey.entries.iter().map(|entry| entry.path.to_str().unwrap()).collect()
}

fn found(root: &TempDir) -> Vec<String> {
    paths(&Survey::of(&seed(root.path())).unwrap()).into_iter().map(str::to_owned).collect()
}

#[test]
fn gitignore_applies_without_a_repository_and_only_beneath_the_root() {
    let above =
        root(&["root/a", "root/b.log", "root/.hidden", "root/sub/c.log", "root/sub/keep.log", "root/sub/d"]);
    fs::write(above.path().join(".gitignore"), "*\n").unwrap();
    fs::write(above.path().join("root/.gitignore"), "*.log\n").unwrap();
    fs::write(above.path().join("root/sub/.gitignore"), "!keep.log\n").unwrap();
    fs::write(above.path().join("root/.ignore"), "a\n").unwrap();
    let survey = Survey::of(&seed(&above.path().join("root"))).unwrap();
    let wanted = [".gitignore", ".hidden", ".ignore", "a", "sub/.gitignore", "sub/d", "sub/keep.log"];
    assert_eq!(paths(&survey), wanted);
}

#[test]
fn gitignore_cannot_include_a_secret() {
    let root = root(&["a", ".env", "deep/ID_RSA", "deep/.ssh/config", "deep/Key.PEM", "node_modules/x/y"]);
    fs::write(root.path().join(".gitignore"), "!.env\n!*.PEM\n").unwrap();
    assert_eq!(found(&root), [".gitignore", "a"]);
}

#[test]
fn links_inside_the_root_stay_links() {
    let outside = root(&["secret"]);
    let root = root(&["a", "sub/b"]);
    let link = |target: &Path, at: &str| symlink(target, root.path().join(at)).unwrap();
    link(Path::new("../a"), "sub/up");
    link(Path::new("nowhere"), "dangling");
    link(&root.path().join("sub/b"), "sub/absolute");
    link(Path::new("sub"), "directory");
    link(&outside.path().join("secret"), "out");
    link(outside.path(), "out_directory");
    link(Path::new("../../x"), "sub/out_dangling");
    link(Path::new("directory/../../x"), "winding");
    link(Path::new("out_directory/secret"), "through");
    let survey = Survey::of(&seed(root.path())).unwrap();
    let target = |path: &str| {
        let entry = survey.entries.iter().find(|entry| entry.path == Path::new(path)).unwrap();
        match &entry.kind {
            Kind::Link { target } => target.to_str().unwrap(),
            Kind::File { .. } => panic!("{path} is a file"),
        }
    };
    assert_eq!(paths(&survey), ["a", "dangling", "directory", "sub/absolute", "sub/b", "sub/up"]);
    assert_eq!(target("sub/up"), "../a");
    assert_eq!(target("sub/absolute"), "../sub/b");
    assert_eq!(target("dangling"), "nowhere");
    assert_eq!(target("directory"), "sub");
}

#[test]
fn special_files_are_skipped() {
    let root = root(&["a"]);
    let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(root.path().join("fifo")).status().unwrap();
    assert!(fifo.success());
    assert_eq!(found(&root), ["a"]);
    assert!(open(root.path(), Path::new("fifo")).unwrap().is_none(), "the open does not block");
}

#[test]
fn every_file_and_byte_is_counted() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..2001 {
        fs::write(root.path().join(format!("{number}.txt")), "12").unwrap();
    }
    fs::write(root.path().join("a.ts"), "1").unwrap();
    let all = seed(root.path());
    let error = Survey::of(&all).unwrap_err();
    assert!(matches!(error, Error::TooManyFiles { limit: 2000, found: 2002, is_all: true }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains("2002") && message.contains("2000") && message.contains("upload_include"),
        "{message}"
    );

    let one = UploadSeed { include: "*.ts".into(), ..all.clone() };
    assert_eq!(paths(&Survey::of(&one).unwrap()), ["a.ts"]);
    let exact = UploadSeed { max_files: 2002, max_bytes: 4003, ..all.clone() };
    assert_eq!(Survey::of(&exact).unwrap().bytes, 4003);
    let error = Survey::of(&UploadSeed { max_bytes: 4002, ..exact }).unwrap_err();
    assert!(matches!(error, Error::TooManyBytes { limit: 4002, found: 4003 }), "{error:?}");
    assert!(error.to_string().contains("upload_include"), "{error}");
    let error = Survey::of(&UploadSeed { include: "src/**".into(), ..all }).unwrap_err();
    assert!(matches!(error, Error::NothingIncluded { candidates: 2002, .. }), "{error:?}");
}

#[test]
fn an_empty_root_is_allowed_and_a_missing_one_is_not() {
    let root = root(&["file"]);
    fs::create_dir(root.path().join("empty")).unwrap();
    assert_eq!(Survey::of(&seed(&root.path().join("empty"))).unwrap().entries, []);
    let missing = Survey::of(&seed(&root.path().join("nowhere"))).unwrap_err();
    assert!(matches!(missing, Error::NoRoot { .. }) && !missing.to_string().contains("nowhere"), "{missing}");
    let file = Survey::of(&seed(&root.path().join("file"))).unwrap_err();
    assert!(matches!(file, Error::RootIsNoDirectory { .. }), "{file:?}");
}

/// Runs a closure as a user who cannot read root's files.
fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::set_thread_res_uid;
    let nobody = rustix::process::Uid::from_raw(65534);
    let drop_all = || {
        if rustix::process::geteuid().is_root() {
            // Applies to this thread only. Its capabilities are dropped too.
            set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
    };
    std::thread::scope(|scope| {
        let act = move || {
            drop_all();
            act()
        };
        scope.spawn(act).join().unwrap()
    })
}

#[test]
fn an_unreadable_file_is_reported_before_the_upload() {
    let root = root(&["a", "sub/shut"]);
    let block =
        |path: &str| fs::set_permissions(root.path().join(path), fs::Permissions::from_mode(0o000)).unwrap();
    block("sub/shut");
    let error = as_nobody(|| Survey::of(&seed(root.path()))).unwrap_err();
    assert!(matches!(&error, Error::Unreadable { path, .. } if path == Path::new("sub/shut")), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("sub/shut") && message.contains("permission denied"), "{message}");
    let without = UploadSeed { include: "a".into(), ..seed(root.path()) };
    assert_eq!(
        paths(&as_nobody(|| Survey::of(&without)).unwrap()),
        ["a"],
        "skipped files need not be readable"
    );

    block("sub");
    let error = as_nobody(|| Survey::of(&seed(root.path()))).unwrap_err();
    assert!(matches!(&error, Error::Unreadable { path, .. } if path == Path::new("sub")), "{error:?}");
}

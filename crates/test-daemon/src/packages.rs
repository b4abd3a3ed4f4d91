//! Installs published packages from npm and PyPI, for tests with real client libraries.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Packages of npm in a directory of their own.
#[derive(Debug, Clone)]
pub struct NpmPackages {
    /// Directory that contains `node_modules`.
    pub dir: PathBuf,
    /// The Node that runs them.
    pub node: PathBuf,
}

impl NpmPackages {
    /// Installs packages in `target`, which is not deleted, and Node in the given version. Returns `None` if npm or the
    /// registry is not available. Blocks.
    pub fn install(target: &Path, packages: &[&str], node: Option<&str>) -> Option<Self> {
        let _lock = lock(target)?;
        let quiet = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
        // npm's own pauses between its tries are too long for a machine without a registry.
        let tries = ["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"];
        let mut npm = Command::new("npm");
        npm.args(["install", "--prefix"]).arg(target).args(quiet).args(tries).args(packages);
        // The machine's own Node may be older.
        let package = format!("node-linux-{}", if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" });
        npm.args(node.map(|version| format!("{package}@{version}")));
        npm.output().is_ok_and(|output| output.status.success()).then_some(())?;
        let program = match node {
            Some(_) => target.join("node_modules").join(package).join("bin/node"),
            None => "node".into(),
        };
        Some(Self { dir: target.to_owned(), node: program })
    }

    /// A command that runs `script` as the file `name` beside the packages.
    pub fn script(&self, name: &str, script: &str) -> Command {
        std::fs::write(self.dir.join(name), script).expect("the directory of the packages is writable");
        let mut command = Command::new(&self.node);
        command.current_dir(&self.dir).arg(name);
        command
    }

    /// A command that runs a program of a package.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(&self.node);
        command.current_dir(&self.dir).arg(self.dir.join("node_modules/.bin").join(name));
        command
    }
}

/// Installs packages of PyPI in a virtual environment at `target`, which is kept, and returns its Python. `None`
/// without Python or the registry. Blocks.
pub fn python_with(target: &Path, packages: &[&str]) -> Option<PathBuf> {
    let _lock = lock(target)?;
    let python = target.join("bin/python");
    if !python.exists() {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(target);
        venv.output().is_ok_and(|output| output.status.success()).then_some(())?;
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    pip.output().is_ok_and(|output| output.status.success()).then_some(python)
}

/// Downloads a package of PyPI without its dependencies to `target`, which is kept, and returns its wheel. `python` is
/// one of [`python_with`]. `None` without the registry. Blocks.
pub fn wheel_of(python: &Path, target: &Path, package: &str) -> Option<PathBuf> {
    let _lock = lock(target)?;
    let wheel = || {
        let files = std::fs::read_dir(target).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        files.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "whl"))
    };
    if let Some(wheel) = wheel() {
        return Some(wheel);
    }
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]);
    pip.args(["--no-cache-dir", "--dest"]).arg(target).arg(package);
    pip.output().is_ok_and(|output| output.status.success()).then(wheel)?
}

/// Creates the directory, and waits until no other test installs there.
fn lock(target: &Path) -> Option<File> {
    std::fs::create_dir_all(target).ok()?;
    let lock = File::create(target.join(".lock")).ok()?;
    lock.lock().ok()?;
    Some(lock)
}

/// Runs a command on a blocking thread, and returns whether it succeeded, and all that it wrote.
pub async fn run(mut command: Command) -> (bool, String) {
    let output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("the thread does not panic");
    let Output { status, stdout, stderr } = output.expect("the program can be started");
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    (status.success(), text)
}

//! Checks of the engine.

use std::error::Error as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use jiff::SignedDuration;

use super::finding::Finding;
use super::host;
use sandboxd_config::Config;
use sandboxd_engine::{Engine, Error, Facts};
use sandboxd_model::EngineAddress;
use sandboxd_model::layout::DEFAULT_IMAGE;

/// Maximum difference between the engine's clock and ours.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

pub(super) fn unusable(error: &Error) -> Finding {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    let fix = error.advice().unwrap_or("see the engine's own log (`journalctl -u docker`)");
    Finding::fault("engine", format!("{error}{cause}"), fix)
}

pub(super) async fn check(engine: &Engine, facts: &Facts, config: &Config) -> Vec<Finding> {
    let cgroups = facts.cgroup_version.map_or("unknown".into(), |version| format!("v{version}"));
    let about =
        format!("{} at {}, {}, cgroup {cgroups}", facts.version, config.engine, facts.operating_system);
    let mut found = vec![Finding::ok("engine", about)];
    found.extend(socket(&config.engine));
    found.extend(versions(facts));
    found.extend(own_warnings(facts));
    found.push(users(facts));
    found.push(live_restore(facts));
    found.push(runtime(facts, config.oci_runtime.as_deref()));
    found.push(image(engine, config).await);
    found.extend(clock(facts));
    found.extend(facts.root_dir.as_deref().map(root_dir));
    found
}

/// Checks access to the socket. Write access to it is root access to the engine's machine.
fn socket(address: &EngineAddress) -> Option<Finding> {
    const CHECK: &str = "engine socket";
    let EngineAddress::Unix(path) = address else {
        let found = format!("{address} is plain HTTP: every client that reaches it has root access there");
        return Some(Finding::warning(CHECK, found, "use a unix socket, or a tunnel with authentication"));
    };
    let mode = std::fs::metadata(path).ok()?.mode() & 0o777;
    Some(if mode & 0o002 == 0 {
        Finding::ok(CHECK, format!("{} has mode {mode:o}", path.display()))
    } else {
        let found =
            format!("every user can write to {} (mode {mode:o}), which is root access", path.display());
        Finding::fault(CHECK, found, format!("chmod 660 {}", path.display()))
    })
}

fn versions(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "engine version";
    let warnings = facts.warnings();
    if warnings.is_empty() {
        return vec![Finding::ok(CHECK, "no known faults that affect sandboxes")];
    }
    let fix =
        "upgrade the engine with its runc (docker-ce and containerd.io, or your distribution's updates)";
    warnings.into_iter().map(|warning| Finding::warning(CHECK, warning, fix)).collect()
}

fn own_warnings(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "engine warnings";
    let fix = "see the engine's documentation on kernel options and cgroups";
    let text = |warning: &String| warning.trim_start_matches("WARNING: ").to_owned();
    facts.warnings.iter().map(|warning| Finding::warning(CHECK, text(warning), fix)).collect()
}

fn users(facts: &Facts) -> Finding {
    const CHECK: &str = "user namespaces";
    if facts.is_rootless() {
        Finding::ok(CHECK, "the engine runs without root")
    } else if facts.remaps_users() {
        Finding::ok(CHECK, "users in containers are unprivileged users on the machine")
    } else {
        let fix = "set \"userns-remap\": \"default\" in /etc/docker/daemon.json; it affects all containers of this engine";
        Finding::warning(CHECK, "not used: root in a container would be root after an escape", fix)
    }
}

fn live_restore(facts: &Facts) -> Finding {
    let found = match facts.live_restore {
        true => "on: commands keep running when the engine restarts",
        false => "off: a restart of the engine ends all commands; files are kept",
    };
    Finding::ok("live restore", found)
}

fn runtime(facts: &Facts, wanted: Option<&str>) -> Finding {
    const CHECK: &str = "oci runtime";
    match wanted {
        None => Finding::ok(CHECK, "the engine's default"),
        Some(name) if facts.runtimes.iter().any(|known| known == name) => Finding::ok(CHECK, name),
        Some(name) => {
            let found = format!("the engine does not have {name:?}; it has {}", facts.runtimes.join(", "));
            Finding::fault(CHECK, found, "add it to /etc/docker/daemon.json, or change SANDBOXD_RUNTIME")
        }
    }
}

async fn image(engine: &Engine, config: &Config) -> Finding {
    const CHECK: &str = "image";
    match engine.has_image(&config.image).await {
        Ok(true) if is_old_image(engine, config).await => {
            let found = format!("{} was built from a different Dockerfile than this version's", config.image);
            Finding::warning(CHECK, found, "rebuild it with `sandboxd build-image`")
        }
        Ok(true) => Finding::ok(CHECK, format!("{} exists", config.image)),
        Ok(false) if config.autobuild && config.image_source.is_some() => {
            let found = format!("{} is missing; the next start builds it, which takes minutes", config.image);
            Finding::warning(CHECK, found, "build it now with `sandboxd build-image`")
        }
        Ok(false) => {
            let fix =
                "run `sandboxd build-image` where the folder `sandbox-images` is, or set SANDBOXD_IMAGE_DIR";
            Finding::fault(CHECK, format!("{} is missing", config.image), fix)
        }
        Err(error) => unusable(&error),
    }
}

async fn is_old_image(engine: &Engine, config: &Config) -> bool {
    let source = config.image_source.as_ref().filter(|_| config.image == DEFAULT_IMAGE);
    match source {
        Some(source) => engine.is_built_from(&config.image, source).await.is_ok_and(|is_current| !is_current),
        None => false,
    }
}

fn clock(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "clock";
    let fix = "set the clock, and synchronize it with a time server (`timedatectl set-ntp true`)";
    // A program cannot run before it was built. The modification time of its file is close to its build time.
    let built = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    if built.is_ok_and(|built| built > SystemTime::now()) {
        return vec![Finding::fault(CHECK, "earlier than the modification time of this program", fix)];
    }
    let ahead = facts.clock_ahead.map(|ahead| match ahead.abs() > CLOCK_TOLERANCE {
        true => Finding::warning(CHECK, format!("the engine's clock differs by {} s", ahead.as_secs()), fix),
        false => Finding::ok(CHECK, "agrees with the engine's clock"),
    });
    ahead.into_iter().collect()
}

fn root_dir(path: &Path) -> Finding {
    const CHECK: &str = "engine disk";
    match host::space(path) {
        Some(space) => space.finding(CHECK, path),
        None => Finding::ok(CHECK, format!("{} is not accessible from here", path.display())),
    }
}

//! A daemon's objects on the host, compared with its API's list.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use bollard::query_parameters::{
    ListContainersOptions, ListNetworksOptions, ListVolumesOptions, RemoveVolumeOptions,
};
use sandbox_api::SandboxId;
use sandbox_api::sandbox::{ListSandboxes, Sandbox, SandboxState};
use sandbox_client::Client;
use sandboxd::model::Lower;
use sandboxd::model::layout::{AGENT_PROGRAM, container_name, volume_name};

use test_daemon::{Home, docker};

/// Directory in the run dir with what starts have found to work.
const START_RECORDS: &str = "start-records";

/// Disks that a daemon creates in advance.
const DISKS_AHEAD: usize = 2;

/// Sandboxes that a daemon starts before a session wants them, at most.
const WAITING: usize = 1;

/// Label that such a sandbox lacks.
const SESSION_KEY: &str = "remcochat.sessionKey";

/// Each set as the host lists it: containers, volumes, disks and so on, by name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Inventory {
    containers: BTreeSet<String>,
    volumes: BTreeSet<String>,
    networks: usize,
    /// Disks that volumes refer to.
    disks: BTreeSet<String>,
    loop_devices: BTreeSet<String>,
    /// Volumes that are mounted on the engine's host.
    mounts: BTreeSet<String>,
    run_dir: BTreeSet<String>,
    /// Agents of each sandbox.
    agents: BTreeMap<String, usize>,
    /// Sandboxes whose volume was created before a session wanted them.
    waiting: BTreeSet<SandboxId>,
}

impl Inventory {
    fn add_running(&mut self, id: &SandboxId, disk: Option<String>) {
        self.volumes.insert(volume_name(id));
        self.disks.extend(disk.clone());
        self.containers.insert(container_name(id));
        self.loop_devices.extend(disk);
        self.mounts.insert(volume_name(id));
        self.run_dir.insert(id.to_string());
        self.agents.insert(id.to_string(), 1);
    }
}

/// Compares the two. The error names the differences.
pub(crate) async fn difference(home: &Home, client: &Client) -> Result<(), String> {
    let listed = client.list(&ListSandboxes { limit: Some(1000), ..Default::default() }).await;
    let listed = listed.map_err(|error| format!("no list: {error}"))?.sandboxes;
    let (found, volume_disks, files) = look(home).await;
    let mut wanted = Inventory::default();
    let listed_volumes: BTreeSet<String> =
        listed.iter().map(|sandbox| volume_name(&sandbox.sandbox_id)).collect();
    for id in found.waiting.iter().filter(|id| !listed_volumes.contains(&volume_name(id))).take(WAITING) {
        wanted.add_running(id, volume_disks.get(&volume_name(id)).cloned());
    }
    wanted.waiting = found.waiting.clone();
    for sandbox in &listed {
        let id = &sandbox.sandbox_id;
        wanted.volumes.insert(volume_name(id));
        let disk = volume_disks.get(&volume_name(id)).cloned();
        wanted.disks.extend(disk.clone());
        match sandbox.state {
            SandboxState::Parked => {}
            SandboxState::Running => wanted.add_running(id, disk),
            other => return Err(format!("{id} is {other:?}")),
        }
    }
    if found != wanted {
        return Err(format!("there is {found:#?}, and listed is {wanted:#?}"));
    }
    check_charges(client, &listed).await?;
    check_files(&wanted.disks, &files)
}

/// What the project is charged for its sandboxes.
async fn check_charges(client: &Client, listed: &[Sandbox]) -> Result<(), String> {
    let usage = client.project_usage("default").await.map_err(|error| format!("no usage: {error}"))?;
    let running = || listed.iter().filter(|sandbox| sandbox.state == SandboxState::Running);
    let wanted = [
        ("sandboxes", listed.len() as u64),
        ("diskMb", listed.iter().map(|sandbox| sandbox.resources.disk_mb.unwrap_or_default()).sum()),
        ("runningSandboxes", running().count() as u64),
        ("memoryMb", running().map(|sandbox| sandbox.resources.memory_mb.unwrap_or_default()).sum()),
    ];
    for (quota, wanted) in wanted {
        let found = usage.now.iter().find(|found| found.quota == quota).map(|found| found.used);
        if found != Some(wanted) {
            return Err(format!("the project is charged {found:?} of `{quota}`, and there is {wanted}"));
        }
    }
    Ok(())
}

fn check_files(disks: &BTreeSet<String>, files: &BTreeSet<String>) -> Result<(), String> {
    let images: BTreeSet<String> =
        files.iter().filter_map(|name| Some(name.strip_suffix(".img")?.to_owned())).collect();
    let ahead: Vec<_> = images.difference(disks).collect();
    // A note goes with its disk.
    let is_note = |name: &str| name.strip_suffix(".note").is_some_and(|disk| disks.contains(disk));
    // Bases stay until others need their space.
    let is_base = |name: &str| name.strip_suffix(".erofs").is_some_and(Lower::is_base);
    let is_known = |name: &str| name.ends_with(".img") || is_base(name) || is_note(name);
    let others: Vec<_> = files.iter().filter(|name| !is_known(name)).collect();
    if !disks.is_subset(&images) || ahead.len() > DISKS_AHEAD || !others.is_empty() {
        return Err(format!("the disks' volume has {files:?}, and sandboxes have {disks:?}"));
    }
    Ok(())
}

/// Whether a daemon that deleted its sandboxes and ended has left anything.
pub(crate) async fn nothing_but_disks(home: &Home) -> Result<(), String> {
    let (found, _, _) = look(home).await;
    if found == Inventory::default() { Ok(()) } else { Err(format!("there is {found:#?}")) }
}

/// Removes the engine's marker, which the next start creates again.
pub(crate) async fn remove_marker(home: &Home) {
    let name = format!("sandboxd-marker-{}", home.instance().unwrap().id());
    docker().await.remove_volume(&name, None::<RemoveVolumeOptions>).await.unwrap();
}

/// All objects, the disk of each volume, and the files in the disks' directory.
async fn look(home: &Home) -> (Inventory, HashMap<String, String>, BTreeSet<String>) {
    let instance = home.instance().unwrap();
    let engine = docker().await;
    let label = format!("sandboxd.instance={}", instance.id());
    let filters = HashMap::from([("label".to_owned(), vec![label])]);
    let options = ListContainersOptions { all: true, filters: Some(filters.clone()), ..Default::default() };
    let containers = engine.list_containers(Some(options)).await.unwrap();
    let names = containers.into_iter().flat_map(|container| container.names.unwrap_or_default());
    let options = ListVolumesOptions { filters: Some(filters.clone()) };
    let volumes = engine.list_volumes(Some(options)).await.unwrap().volumes.unwrap_or_default();
    let networks = engine.list_networks(Some(ListNetworksOptions { filters: Some(filters) })).await.unwrap();

    let is_of_disks = |name: &str| name.contains("sandboxd-disks-");
    let is_own = |name: &str| {
        is_of_disks(name) || ["sandboxd-marker-", "sandboxd-epoch-"].iter().any(|own| name.contains(own))
    };
    let disks_dir = volumes.iter().find(|volume| is_of_disks(&volume.name)).map(|volume| &volume.mountpoint);
    let mut volume_disks = HashMap::new();
    for volume in &volumes {
        let device = volume.options.get("device").and_then(|path| Path::new(path).file_stem()?.to_str());
        // A volume over a base names its disk.
        let device = device.or_else(|| volume.options.get("disk").map(String::as_str));
        if let Some(disk) = device {
            volume_disks.insert(volume.name.clone(), disk.to_owned());
        }
    }
    let waiting = volumes.iter().filter(|volume| !volume.labels.contains_key(SESSION_KEY));
    let waiting =
        waiting.filter_map(|volume| volume.labels.get("remcochat.sandboxId")?.parse().ok()).collect();
    let volumes: BTreeSet<String> =
        volumes.iter().map(|volume| volume.name.clone()).filter(|name| !is_own(name)).collect();
    let files = disks_dir.map(|dir| names_in(Path::new(dir))).unwrap_or_default();
    let found = Inventory {
        containers: names
            .map(|name| name.trim_start_matches('/').to_owned())
            .filter(|name| !is_of_disks(name))
            .collect(),
        networks: networks.len(),
        disks: volume_disks.values().cloned().collect(),
        loop_devices: loop_devices(&files),
        mounts: mounts(&volumes),
        volumes,
        run_dir: sandboxes_in(&home.path().join("run").join(instance.id())),
        agents: agents(instance.id()),
        waiting,
    };
    (found, volume_disks, files)
}

/// The names in a run dir that belong to sandboxes, without what starts have found to work.
fn sandboxes_in(run_dir: &Path) -> BTreeSet<String> {
    let mut names = names_in(run_dir);
    names.remove(START_RECORDS);
    names
}

/// Lets the next start try everything itself.
pub(crate) fn remove_start_records(home: &Home) {
    let Some(instance) = home.instance() else { return };
    let records = home.path().join("run").join(instance.id()).join(START_RECORDS);
    match fs::remove_dir_all(records) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
        _ => {}
    }
}

fn names_in(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Disks with a loop device. The kernel shows the file's path as its opener saw it. The names are unique.
fn loop_devices(files: &BTreeSet<String>) -> BTreeSet<String> {
    let devices = names_in(Path::new("/sys/block"));
    let backing = devices.iter().filter_map(|device| {
        let path = format!("/sys/block/{device}/loop/backing_file");
        let file = fs::read_to_string(path).ok()?;
        // A file that was removed while attached is shown as deleted. That is a leak as well.
        let name = file.trim().rsplit('/').next()?.to_owned();
        files.contains(name.trim_end_matches(" (deleted)")).then_some(name)
    });
    backing.map(|name| name.trim_end_matches(".img").to_owned()).collect()
}

fn mounts(volumes: &BTreeSet<String>) -> BTreeSet<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let at: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(4)).collect();
    let is_below = |path: &str, volume: &str| path.split('/').any(|part| part == volume);
    let is_mounted = |volume: &&String| at.iter().any(|path| is_below(path, volume));
    volumes.iter().filter(is_mounted).cloned().collect()
}

/// Agents by sandbox: processes of the agent's program that have one of this daemon's sockets mounted. A child is
/// counted until it executes another program.
fn agents(instance: &str) -> BTreeMap<String, usize> {
    let mut agents = BTreeMap::new();
    for pid in names_in(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok()) {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let mounts = read("mountinfo");
        let Some((_, after)) = mounts.split_once(&format!("/{instance}/sbx_")) else { continue };
        let id: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
        if read("cmdline").starts_with(AGENT_PROGRAM) {
            *agents.entry(format!("sbx_{id}")).or_default() += 1;
        }
    }
    agents
}

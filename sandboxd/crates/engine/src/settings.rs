//! The settings of a sandbox's container: one function turns a plan into the engine's request.
//!
//! Everything that hardens a sandbox is here and nowhere else. Of a caller's input, only numbers within their ranges and
//! the session key's label get here. The reasons are beside the values. The sources are Docker API 1.41 and the kernel's
//! documentation.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount, MountType,
    MountVolumeOptions, MountVolumeOptionsDriverConfig, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};

use super::{CgroupParent, Runtime, SandboxLabels};
use sandboxd_model::layout::{
    AGENT_DIR, AGENT_PROGRAM, CA_BUNDLE_NAME, HOSTS_NAME, LOCAL_DIR, PROFILE_NAME, PROFILE_TARGET, RUN_DIR,
    SOCKET_NAME, VOLUME_DIR, WORKSPACE, volume_name,
};
use sandboxd_model::{Disk, Instance, Lower, Resources, UidSlot, limits};

const MIB: u64 = 1024 * 1024;

/// tmpfs mounts count against the sandbox's memory and cannot be reclaimed. If they filled the limit, the sandbox
/// would hang. Together they stay below two fifths of the smallest sandbox (256 MiB).
const TMP_BYTES: u64 = 40 * MIB;
const VAR_TMP_BYTES: u64 = 16 * MIB;
const RUN_BYTES: u64 = MIB;
const SHM_BYTES: u64 = 32 * MIB;

/// Maximum number of files in the tmpfs mounts. An empty file costs about a kilobyte that no size limit counts. The
/// engine's own /dev/shm has no such limit and could be filled to the sandbox's memory limit.
const TMP_INODES: u64 = 16_384;
const VAR_TMP_INODES: u64 = 4096;
const SHM_INODES: u64 = 4096;
const RUN_INODES: u64 = 256;

/// System V queues, semaphores and shared memory belong to no process and survive every kill. Only the end of the
/// container frees them. So queues of 16 KiB, semaphore sets and pages of segments (which shm_rmid_forced removes
/// with their last process) are few.
const MESSAGE_QUEUES: u64 = 16;
const SEMAPHORES: &str = "250 4096 32 64";
const SEGMENTS: u64 = 256;
const PAGE_BYTES: u64 = 4096;

/// Maximum number of open files of a process.
const OPEN_FILES: i64 = 4096;

/// Half of the default weight, so that the host's own services come first when processors are short.
const CPU_SHARES: i64 = 512;

/// Above the host's processes and below the commands, which the agent raises to 1000.
const OOM_SCORE: i64 = 500;

/// Maximum heap of Node, in percent of the memory. Node cannot see the limit behind the masked cgroup.
const NODE_HEAP_PERCENT: u64 = 75;

/// Mount options of a disk. No file on it grants additional privileges, and deleted blocks are returned to the
/// machine. The kernel zeroes no inode tables in the background, because they are holes.
const DISK_OPTIONS: &str = "nosuid,nodev,noatime,discard,noinit_itable,errors=remount-ro";

/// Variables in which programs look for trusted certificates: Node and npm, pip and requests, git, curl, OpenSSL
/// with what is built on it (Python, Ruby) and Go, cargo. All except the first replace the default certificates.
const CA_VARIABLES: [&str; 8] = [
    "NODE_EXTRA_CA_CERTS",
    "npm_config_cafile",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
    "CARGO_HTTP_CAINFO",
];

pub(super) const SECCOMP_PROFILE: &str = include_str!("seccomp.json");

/// The engine's own list, which a given list replaces, and further paths that reveal information about the host.
const MASKED_PATHS: [&str; 24] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/block",
    "/sys/class/dmi",
    "/sys/devices/virtual/dmi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/fs/cgroup",
    "/sys/fs/pstore",
    "/sys/kernel",
];

const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The engine's name for a network with only a loopback interface.
pub const NO_NETWORK: &str = "none";

/// Everything that a sandbox's container is created from.
#[derive(Debug, Clone)]
pub struct ContainerPlan {
    /// Identity and specification of the sandbox.
    pub labels: SandboxLabels,
    /// Tag or digest of the image.
    pub image: String,
    /// Volume with the agent's program.
    pub agent_volume: String,
    /// Secret that the agent presents to the daemon.
    pub agent_secret: String,
    /// Host directory of the sandbox's socket. `None` if the daemon connects through the engine.
    pub run_dir: Option<String>,
    /// Path of the sandbox's disk on the engine's machine. The disk must be attached when the container starts.
    /// `None` means a plain volume without a quota.
    pub disk_device: Option<String>,
    /// Bridge of the container. `None` means only a loopback interface.
    pub network: Option<String>,
    /// Whether the agent's volume has certificates to trust.
    pub has_ca_bundle: bool,
    /// Whether the agent keeps shells waiting for commands.
    pub waiting_shells: bool,
}

/// What the settings depend on besides the plan: the engine's machine and the operator's choices.
#[derive(Debug, Clone)]
pub struct Host {
    /// Cgroup of all sandboxes, so that one limit can hold for all of them.
    pub cgroup_parent: CgroupParent,
    /// OCI runtime of every sandbox.
    pub runtime: Runtime,
    /// Number of processors. The engine rejects a larger limit.
    pub processors: i64,
}

/// The body of the create call for `plan`.
pub fn container_body(plan: &ContainerPlan, instance: &Instance, host: &Host) -> ContainerCreateBody {
    let uid = plan.labels.slot.uid();
    ContainerCreateBody {
        image: Some(plan.image.clone()),
        user: Some(format!("{uid}:{uid}")),
        // The same for all sandboxes, so that it reveals nothing.
        hostname: Some("sandbox".into()),
        entrypoint: Some(vec![AGENT_PROGRAM.into()]),
        cmd: Some(Vec::new()),
        working_dir: Some(WORKSPACE.into()),
        env: Some(environment(plan)),
        labels: Some(plan.labels.to_map(instance)),
        // If the agent handled a signal, any command could send it too. So it handles none.
        stop_signal: Some("SIGKILL".into()),
        stop_timeout: Some(0),
        // Without a network, the engine does not write the loopback names either. If the daemon cannot write them,
        // the engine must.
        network_disabled: Some(plan.network.is_none() && plan.run_dir.is_some()),
        host_config: Some(host_config(plan, instance, host)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(plan: &ContainerPlan, instance: &Instance, host: &Host) -> HostConfig {
    let resources = plan.labels.spec.resources;
    let memory = resources.memory_bytes() as i64;
    HostConfig {
        // The agent must be PID 1 itself. Only then can it end all processes at once.
        init: Some(false),
        readonly_rootfs: Some(true),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".into()]),
        security_opt: Some(vec!["no-new-privileges:true".into(), format!("seccomp={SECCOMP_PROFILE}")]),
        masked_paths: Some(MASKED_PATHS.map(Into::into).into()),
        readonly_paths: Some(READONLY_PATHS.map(Into::into).into()),
        network_mode: Some(plan.network.clone().unwrap_or(NO_NETWORK.into())),
        ipc_mode: Some("private".into()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        cgroup_parent: Some(host.cgroup_parent.of_project(&plan.labels.spec.owner.project)),
        runtime: host.runtime.wanted.clone(),
        pids_limit: Some(host.runtime.pids_limit(processes(resources))),
        memory: Some(memory),
        // Equal to memory: no swap, so that a sandbox that needs more memory is ended instead of slowing down the
        // host.
        memory_swap: Some(memory),
        memory_swappiness: Some(0),
        nano_cpus: Some(i64::from(resources.vcpus()).min(host.processors) * 1_000_000_000),
        cpu_shares: Some(CPU_SHARES),
        oom_score_adj: Some(OOM_SCORE),
        shm_size: Some(SHM_BYTES as i64),
        ulimits: Some(ulimits(resources)),
        sysctls: Some(sysctls()),
        tmpfs: Some(tmpfs()),
        mounts: Some(mounts(plan, instance)),
        // Output goes through the agent. A log on the host's disk would grow without limit.
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        auto_remove: Some(false),
        ..HostConfig::default()
    }
}

/// Maximum number of processes and threads of a container.
fn processes(resources: Resources) -> u32 {
    resources.pids() + limits::SHELL_PROCESSES
}

fn ulimits(resources: Resources) -> Vec<ResourcesUlimits> {
    [
        ("nofile", OPEN_FILES),
        ("core", 0),
        // No file is larger than the disk, whether or not there is a disk.
        ("fsize", resources.disk_bytes() as i64),
        ("memlock", 64 * 1024),
        ("msgqueue", 0),
        ("sigpending", 1024),
        // Counted per user, and each sandbox has its own user.
        ("nproc", processes(resources).into()),
    ]
    .map(|(name, value)| ResourcesUlimits { name: Some(name.into()), soft: Some(value), hard: Some(value) })
    .into()
}

fn sysctls() -> HashMap<String, String> {
    [
        // Otherwise segments survive the process that created them.
        ("kernel.shm_rmid_forced", "1".to_owned()),
        ("kernel.shmall", (SHM_BYTES / PAGE_BYTES).to_string()),
        ("kernel.shmmni", SEGMENTS.to_string()),
        ("kernel.msgmni", MESSAGE_QUEUES.to_string()),
        ("kernel.sem", SEMAPHORES.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn tmpfs() -> HashMap<String, String> {
    let options = |bytes: u64, inodes: u64, mode: u32| {
        format!("rw,noexec,nosuid,nodev,mode={mode:o},size={bytes},nr_inodes={inodes}")
    };
    HashMap::from([
        ("/tmp".into(), options(TMP_BYTES, TMP_INODES, 0o1777)),
        ("/var/tmp".into(), options(VAR_TMP_BYTES, VAR_TMP_INODES, 0o1777)),
        // Replaces the engine's own, to limit the number of files.
        ("/dev/shm".into(), options(SHM_BYTES, SHM_INODES, 0o1777)),
        ("/run".into(), options(RUN_BYTES, RUN_INODES, 0o755)),
    ])
}

fn mounts(plan: &ContainerPlan, instance: &Instance) -> Vec<Mount> {
    let volume = |name: String, target: &str, read_only, labels, driver_config| Mount {
        typ: Some(MountType::VOLUME),
        source: Some(name),
        target: Some(target.into()),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions {
            // Otherwise the image's directory would overwrite the owner that was set.
            no_copy: Some(true),
            labels,
            driver_config,
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    };
    let labels = plan.labels.to_map(instance);
    let disk = plan.disk_device.clone().map(|device| match (&plan.labels.disk, lower_of(plan)) {
        (Some(disk), Some(lower)) => base_driver(disk, lower, plan.labels.slot),
        _ => disk_driver(device),
    });
    let mut mounts = vec![
        volume(volume_name(&plan.labels.id), VOLUME_DIR, false, Some(labels), disk),
        volume(plan.agent_volume.clone(), AGENT_DIR, true, None, None),
    ];
    if let Some(run_dir) = &plan.run_dir {
        // Nothing in the sandbox can replace the socket.
        let bind = |source: String, target: &str| Mount {
            typ: Some(MountType::BIND),
            source: Some(source),
            target: Some(target.into()),
            read_only: Some(true),
            ..Mount::default()
        };
        mounts.push(bind(run_dir.clone(), RUN_DIR));
        mounts.push(bind(format!("{run_dir}/{HOSTS_NAME}"), "/etc/hosts"));
        mounts.push(bind(format!("{run_dir}/{PROFILE_NAME}"), PROFILE_TARGET));
    }
    mounts
}

/// Options with which the engine mounts `device`, a path on its machine, as the volume.
pub(super) fn disk_driver(device: String) -> MountVolumeOptionsDriverConfig {
    let options = [("type", "ext4".to_owned()), ("device", device), ("o", DISK_OPTIONS.to_owned())];
    MountVolumeOptionsDriverConfig {
        name: Some("local".into()),
        options: Some(options.map(|(name, value)| (name.to_owned(), value)).into()),
    }
}

/// What the sandbox's disk is used over.
pub(super) fn lower_of(plan: &ContainerPlan) -> Option<&Lower> {
    plan.labels.disk.as_ref()?.lower()
}

/// Options with which the volume plugin mounts a disk over a base, whose files then belong to this user.
pub(super) fn base_driver(disk: &Disk, lower: &Lower, owner: UidSlot) -> MountVolumeOptionsDriverConfig {
    let uid = owner.uid().to_string();
    let options = [("disk", disk.name()), ("base", lower.base()), ("uid", &uid)];
    MountVolumeOptionsDriverConfig {
        name: Some(lower.driver().into()),
        options: Some(options.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
    }
}

/// Environment of the agent, and what it passes on to commands. The only secret in it is the agent's own, which the
/// agent does not pass on.
fn environment(plan: &ContainerPlan) -> Vec<String> {
    let heap_mb = plan.labels.spec.resources.memory_bytes() / MIB * NODE_HEAP_PERCENT / 100;
    let mut environment = vec![
        format!("SANDBOX_AGENT_SECRET={}", plan.agent_secret),
        format!("SANDBOX_AGENT_WORKSPACE={WORKSPACE}"),
        format!("PATH={LOCAL_DIR}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        format!("HOME={WORKSPACE}"),
        // Not /tmp, where nothing can be executed: builds execute their own output.
        format!("TMPDIR={LOCAL_DIR}/tmp"),
        format!("XDG_CACHE_HOME={LOCAL_DIR}/cache"),
        format!("XDG_CONFIG_HOME={LOCAL_DIR}/config"),
        format!("XDG_DATA_HOME={LOCAL_DIR}/share"),
        format!("XDG_STATE_HOME={LOCAL_DIR}/state"),
        format!("npm_config_cache={LOCAL_DIR}/cache/npm"),
        format!("NPM_CONFIG_PREFIX={LOCAL_DIR}"),
        format!("PIP_CACHE_DIR={LOCAL_DIR}/cache/pip"),
        format!("PYTHONUSERBASE={LOCAL_DIR}"),
        format!("CARGO_HOME={LOCAL_DIR}/cargo"),
        format!("NODE_OPTIONS=--max-old-space-size={heap_mb}"),
    ];
    environment.extend(
        ["LANG=C.UTF-8", "TERM=xterm-256color", "USER=sandbox", "LOGNAME=sandbox", "SHELL=/bin/bash"]
            .map(Into::into),
    );
    if plan.has_ca_bundle {
        environment.extend(CA_VARIABLES.map(|name| format!("{name}={AGENT_DIR}/{CA_BUNDLE_NAME}")));
    }
    if !plan.waiting_shells {
        environment.push("SANDBOX_AGENT_WAITING_SHELLS=off".into());
    }
    // A sandbox with a network of its own does not connect through the daemon.
    if plan.network.is_some() {
        environment.push("SANDBOX_AGENT_PROXY=off".into());
    }
    if plan.run_dir.is_some() {
        environment.push(format!("SANDBOX_AGENT_SOCKET={RUN_DIR}/{SOCKET_NAME}"));
    }
    environment
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use sandboxd_model::{Resources, SandboxSpec, Transport, UidSlot};

    fn plans() -> impl Strategy<Value = ContainerPlan> {
        (
            "[ -~]{1,200}",
            0..u32::from(UidSlot::COUNT),
            1..=8u64,
            256..=16_384u64,
            16..=4096u64,
            proptest::bool::ANY,
            proptest::collection::vec(1..=65_535u16, 0..4),
            (64..=65_536u64, proptest::bool::ANY, proptest::bool::ANY),
        )
            .prop_filter_map(
                "a blank key",
                |(key, slot, vcpus, memory, pids, socket, ports, disk)| {
                    Some(ContainerPlan {
                        labels: SandboxLabels {
                            id: "sbx_0123456789abcdef".parse().ok()?,
                            slot: UidSlot::of_uid(UidSlot::FIRST_UID + slot)?,
                            transport: if socket { Transport::Socket } else { Transport::Engine },
                            disk: None,
                            spec: SandboxSpec {
                                resources: Resources::new(sandbox_api::sandbox::Resources {
                                    vcpus: Some(vcpus),
                                    memory_mb: Some(memory),
                                    pids: Some(pids),
                                    disk_mb: Some(disk.0),
                                })
                                .ok()?,
                                ports,
                                ..SandboxSpec::new(key.parse().ok()?)
                            },
                        },
                        image: "remcochat-sandbox:node24".into(),
                        agent_volume: "sandboxd-agent-0".into(),
                        agent_secret: "secret".into(),
                        run_dir: socket.then(|| "/run/sandboxd/sbx_0123456789abcdef".into()),
                        disk_device: disk.1.then(|| "/volumes/disks/_data/dsk_1.dev".into()),
                        network: disk.2.then(|| "sandboxes-open".into()),
                        has_ca_bundle: disk.1,
                        waiting_shells: disk.2,
                    })
                },
            )
    }

    proptest! {
        #[test]
        fn every_plan_makes_a_hardened_container(plan in plans()) {
            let runtime = Runtime::of(&bollard::models::SystemInfo::default(), None).unwrap();
            let on = Host { cgroup_parent: CgroupParent::Directory, runtime, processors: 4 };
            let body = container_body(&plan, &Instance::new([1; 32]), &on);
            let host = body.host_config.unwrap();

            let uid = plan.labels.slot.uid();
            prop_assert!(uid >= 20_000);
            prop_assert_eq!(body.user, Some(format!("{uid}:{uid}")));
            prop_assert_eq!(body.entrypoint, Some(vec![AGENT_PROGRAM.to_owned()]));
            prop_assert_eq!(host.init, Some(false));
            prop_assert_eq!(host.readonly_rootfs, Some(true));
            prop_assert_eq!(host.privileged, Some(false));
            prop_assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
            let network = plan.network.as_deref();
            prop_assert_eq!(host.network_mode.as_deref(), Some(network.unwrap_or("none")));
            prop_assert_eq!(body.network_disabled, Some(network.is_none() && plan.run_dir.is_some()));
            prop_assert_eq!(host.ipc_mode.as_deref(), Some("private"));
            prop_assert_eq!(host.memory, host.memory_swap);
            prop_assert!(host.memory.unwrap() >= 256 * MIB as i64);
            let pids = host.pids_limit.unwrap() - i64::from(limits::SHELL_PROCESSES);
            prop_assert!((16..=4096).contains(&pids));
            prop_assert!((1_000_000_000..=4_000_000_000).contains(&host.nano_cpus.unwrap()));
            prop_assert_eq!(host.log_config.and_then(|log| log.typ), Some("none".to_owned()));
            prop_assert_eq!(host.auto_remove, Some(false));
            let ulimits = host.ulimits.unwrap();
            let fsize = ulimits.iter().find(|limit| limit.name.as_deref() == Some("fsize")).unwrap();
            prop_assert_eq!(fsize.hard, Some(plan.labels.spec.resources.disk_bytes() as i64));
            let security = host.security_opt.unwrap();
            prop_assert!(security.contains(&"no-new-privileges:true".to_owned()));
            let profile = security.iter().find_map(|option| option.strip_prefix("seccomp="));
            prop_assert_eq!(profile, Some(SECCOMP_PROFILE));

            prop_assert!(host.cap_add.is_none() && host.devices.is_none() && host.binds.is_none());
            prop_assert!(host.device_cgroup_rules.is_none() && host.device_requests.is_none());
            prop_assert!(host.volumes_from.is_none() && host.extra_hosts.is_none() && host.links.is_none());
            prop_assert!(host.pid_mode.is_none() && host.uts_mode.is_none() && host.userns_mode.is_none());
            prop_assert!(host.port_bindings.is_none() && host.publish_all_ports.is_none());
            prop_assert!(body.exposed_ports.is_none() && body.networking_config.is_none());
            let environment = body.env.unwrap();
            let secrets = environment.iter().filter(|entry| entry.contains("secret")).count();
            prop_assert_eq!(secrets, 1, "only the agent's own");

            let mounts = host.mounts.unwrap();
            let targets: Vec<&str> = mounts.iter().map(|m| m.target.as_deref().unwrap()).collect();
            let socket = plan.run_dir.is_some();
            prop_assert_eq!(targets.len(), if socket { 5 } else { 2 });
            for mount in &mounts {
                let writable = mount.read_only == Some(false);
                prop_assert_eq!(writable, mount.target.as_deref() == Some(VOLUME_DIR));
                let is_bind = mount.typ == Some(MountType::BIND);
                let target = mount.target.as_deref().unwrap();
                prop_assert_eq!(is_bind, [RUN_DIR, "/etc/hosts", PROFILE_TARGET].contains(&target));
                let driver = mount.volume_options.as_ref().and_then(|options| options.driver_config.as_ref());
                let device = driver.and_then(|driver| driver.options.as_ref()?.get("device"));
                let wanted = plan.disk_device.as_ref().filter(|_| writable);
                prop_assert_eq!(device, wanted, "the sandbox's volume alone is its disk");
                if let Some(options) = driver.and_then(|driver| driver.options.as_ref()?.get("o")) {
                    prop_assert!(options.starts_with("nosuid,nodev,"));
                }
            }
        }

        #[test]
        fn memory_backed_mounts_are_limited_to_part_of_the_memory(plan in plans()) {
            let memory = plan.labels.spec.resources.memory_bytes();
            let places = TMP_BYTES + VAR_TMP_BYTES + RUN_BYTES + SHM_BYTES;
            prop_assert!(places * 5 <= memory * 2);
        }
    }

    #[test]
    fn the_seccomp_profile_is_json_and_denies_by_default() {
        let profile: serde_json::Value = serde_json::from_str(SECCOMP_PROFILE).unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    }
}

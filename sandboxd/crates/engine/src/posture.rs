//! Reads the hardening of a container from what the engine reports.

use bollard::models::ContainerInspectResponse;

use super::settings::SECCOMP_PROFILE;
use sandboxd_model::posture::{Posture, Seccomp};

pub(super) fn posture_of(container: &ContainerInspectResponse) -> Posture {
    let host = container.host_config.clone().unwrap_or_default();
    let security = host.security_opt.unwrap_or_default();
    let own_profile = security.iter().any(|option| option.strip_prefix("seccomp=") == Some(SECCOMP_PROFILE));
    let drops_all = host.cap_drop.unwrap_or_default().iter().any(|name| name.eq_ignore_ascii_case("all"));
    let capabilities = match drops_all {
        true => host.cap_add.unwrap_or_default(),
        false => vec!["the engine's default ones".to_owned()],
    };
    // The engine reports 0 or nothing if there is no limit.
    let limit = |value: Option<i64>| value.filter(|value| *value > 0);
    let memory_bytes = limit(host.memory);
    let network = host.network_mode.unwrap_or_default();
    // The mode stays the same when the container is connected to another network.
    let networks = container.network_settings.as_ref().and_then(|settings| settings.networks.as_ref());
    let other = networks.and_then(|networks| networks.keys().find(|name| **name != network).cloned());
    Posture {
        readonly_rootfs: host.readonly_rootfs == Some(true),
        capabilities: if host.privileged == Some(true) { vec!["ALL".into()] } else { capabilities },
        no_new_privileges: security
            .iter()
            .any(|option| option.starts_with("no-new-privileges") && !option.ends_with("false")),
        seccomp: if own_profile { Seccomp::Own } else { Seccomp::Other },
        user: container.config.as_ref().and_then(|config| config.user.clone()).unwrap_or_default(),
        pids_limit: limit(host.pids_limit),
        memory_bytes,
        swap_bytes: memory_bytes.zip(limit(host.memory_swap)).map(|(memory, both)| both - memory),
        nano_cpus: limit(host.nano_cpus),
        network: other.unwrap_or(network),
        runtime: host.runtime.unwrap_or_default(),
        image_id: container.image.clone(),
    }
}

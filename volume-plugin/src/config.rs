//! The plugin's configuration in the engine: its rights, its mounts, and its name.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Name of the program in the plugin's root directory.
pub const PROGRAM: &str = "sandboxd-volumes";

/// The directory of the disks in the plugin.
pub const DISKS_DIR: &str = "/disks";

/// The directory of the volumes in the plugin. The engine sees what is mounted below it.
pub const VOLUMES_DIR: &str = "/volumes";

/// The directory of the definitions in the plugin. It belongs to the plugin's own root directory.
pub(crate) const STATE_DIR: &str = "/state";

/// A directory in which only the plugin sees mounts.
pub(crate) const PRIVATE_DIR: &str = "/private";

/// Directories that the plugin's root directory must have besides the program.
pub const DIRECTORIES: [&str; 4] = ["disks", "volumes", "state", "private"];

/// Name of the socket in the engine's directory of plugins.
pub(crate) const SOCKET: &str = "volumes.sock";

/// Number of digits of the digest in a name.
const DIGEST_CHARS: usize = 12;

/// Returns the plugin's `config.json` (docs.docker.com/engine/extend/config), for disks in this directory of the
/// engine's machine.
///
/// A loop device is created when it is needed, and a plugin can only name devices that exist when it starts. So all
/// devices are allowed, but the plugin has nodes for none of them.
#[must_use]
pub fn config(disks: &Path) -> Value {
    json!({
        "Description": "Mounts workspaces over shared read-only bases",
        "Documentation": "",
        "Interface": { "Types": ["docker.volumedriver/1.0"], "Socket": SOCKET },
        "Entrypoint": [format!("/{PROGRAM}")],
        "WorkDir": "/",
        "Network": { "Type": "none" },
        "PropagatedMount": VOLUMES_DIR,
        "IpcHost": false,
        "PidHost": false,
        "Mounts": [{
            "Name": "disks",
            "Description": "The images of disks and bases",
            "Source": disks,
            "Destination": DISKS_DIR,
            "Type": "bind",
            "Options": ["bind", "ro", "nosuid", "nodev", "noexec"],
            "Settable": null,
        }],
        "Env": [],
        "Args": { "Name": "", "Description": "", "Settable": null, "Value": [] },
        "Linux": {
            "Capabilities": ["CAP_SYS_ADMIN", "CAP_DAC_READ_SEARCH"],
            "AllowAllDevices": true,
            "Devices": [],
        },
    })
}

/// Returns the first digits of a digest of the program and the configuration, for the plugin's tag. So another version
/// has another name, and both can run side by side.
#[must_use]
pub fn tag(program: &[u8], config: &Value) -> String {
    let text = config.to_string();
    let mut digest = Sha256::new();
    digest.update((text.len() as u64).to_le_bytes());
    digest.update(text);
    digest.update(program);
    let mut tag: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    tag.truncate(DIGEST_CHARS);
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_depends_on_program_and_configuration() {
        let config = config(Path::new("/one"));
        let tag_of_one = tag(b"program", &config);
        assert_eq!(tag_of_one.len(), DIGEST_CHARS);
        assert_eq!(tag_of_one, tag(b"program", &config));
        assert_ne!(tag_of_one, tag(b"other", &config));
        assert_ne!(tag_of_one, tag(b"program", &super::config(Path::new("/two"))));
    }

    #[test]
    fn the_configuration_grants_what_is_needed_and_nothing_else() {
        let config = config(Path::new("/disks-of-the-engine"));
        assert_eq!(config["Linux"]["Capabilities"], json!(["CAP_SYS_ADMIN", "CAP_DAC_READ_SEARCH"]));
        assert_eq!(config["Network"]["Type"], "none");
        assert_eq!((&config["IpcHost"], &config["PidHost"]), (&json!(false), &json!(false)));
        let mounts = config["Mounts"].as_array().unwrap();
        assert_eq!(mounts.len(), 1, "no socket of the engine, no directory of the machine but this one");
        assert_eq!(mounts[0]["Source"], "/disks-of-the-engine");
        assert!(mounts[0]["Options"].as_array().unwrap().contains(&json!("ro")));
        assert_eq!(config["Env"], json!([]));
    }
}

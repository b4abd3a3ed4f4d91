//! Paths inside a sandbox.
//!
//! The sandbox's volume is mounted one level above the workspace. Caches and temporary files are kept beside the
//! session's own files and do not mix with them. So a new workspace is empty, and `git clone … .` works in it.

/// Tag of the sandbox image, which serves every runtime.
pub const DEFAULT_IMAGE: &str = "remcochat-sandbox:node24";

/// Mount point of the sandbox's volume.
pub const VOLUME_DIR: &str = "/vercel/sandbox";

/// Directory of the session's files, and the home directory.
pub const WORKSPACE: &str = sandbox_api::WORKSPACE;

/// Name of the workspace in the volume.
pub const WORKSPACE_NAME: &str = "workspace";

/// Directory of caches, temporary files and what `npm -g` and `pip` install. It is in the volume beside the
/// workspace.
pub const LOCAL_DIR: &str = "/vercel/sandbox/.local";

/// Name of [`LOCAL_DIR`] in the volume.
pub const LOCAL_NAME: &str = ".local";

/// Name in the volume of the directory in which the agent prepares files before it moves them into the workspace.
pub const STAGING_NAME: &str = ".staging";

/// Name in the volume of the directory with output files of commands.
pub const OUTPUTS_NAME: &str = "outputs";

/// Mount point of the agent volume, read-only.
pub const AGENT_DIR: &str = "/.sandbox/bin";

/// The agent's program.
pub const AGENT_PROGRAM: &str = "/.sandbox/bin/sandbox-agent";

/// Name of the file beside the agent with the certificates that the operator gives every sandbox.
pub const CA_BUNDLE_NAME: &str = "ca-bundle.pem";

/// Mount point of the sandbox's run directory, read-only.
pub const RUN_DIR: &str = "/.sandbox/run";

/// Name of the socket in the run dir, on the host and inside.
pub const SOCKET_NAME: &str = "agent.sock";

/// Name of [`HOSTS`] in the run dir, on the host.
pub const HOSTS_NAME: &str = "hosts";

/// Content of a sandbox's `/etc/hosts`. An engine writes this file only for a container that has a network, which
/// takes longer than the rest of the start. Many development servers listen on `localhost`.
pub const HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n";

/// Name of [`PROFILE`] in the run dir, on the host.
pub const PROFILE_NAME: &str = "profile.sh";

/// Mount point of [`PROFILE`]: the last file that `/etc/profile` reads, in every distribution that has such a
/// directory.
pub const PROFILE_TARGET: &str = "/etc/profile.d/zz-sandbox-path.sh";

/// Gives a login shell the PATH that it was started with, which Debian's `/etc/profile` overwrites. The image
/// contains it too, for sandboxes without a run dir.
pub const PROFILE: &str = include_str!("profile.sh");

/// Path of the file with a command's output.
pub fn output_path(command: &sandbox_api::CommandId) -> String {
    format!("{VOLUME_DIR}/{OUTPUTS_NAME}/{command}.log")
}

/// Name of the sandbox's container.
pub fn container_name(id: &sandbox_api::SandboxId) -> String {
    format!("remcochat-sandbox-{id}")
}

/// Name of the container that publishes a port of a sandbox.
pub fn publisher_name(id: &sandbox_api::SandboxId, port: u16) -> String {
    format!("remcochat-sandbox-proxy-{id}-{port}")
}

/// Name of the sandbox's volume.
pub fn volume_name(id: &sandbox_api::SandboxId) -> String {
    format!("remcochat-sandbox-ws-{id}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_image_has_the_same_profile() {
        assert_eq!(super::PROFILE, include_str!("../../../../sandbox-images/node24/profile.sh"));
    }
}

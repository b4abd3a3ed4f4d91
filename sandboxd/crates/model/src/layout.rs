//! Where things are inside a sandbox.
//!
//! The sandbox's volume is mounted one level above the workspace, so that caches and temporary files have a
//! place that keeps its content and is not in the way of the session's own files: an empty workspace is
//! empty, and `git clone … .` works in it.

/// Tag of the sandbox image, which serves every runtime.
pub const DEFAULT_IMAGE: &str = "remcochat-sandbox:node24";

/// Where the sandbox's volume is mounted.
pub const VOLUME_DIR: &str = "/vercel/sandbox";

/// The session's files, and the home directory.
pub const WORKSPACE: &str = sandbox_api::WORKSPACE;

/// The workspace's name in the volume.
pub const WORKSPACE_NAME: &str = "workspace";

/// Caches, temporary files and what `npm -g` and `pip` install, in the volume beside the workspace.
pub const LOCAL_DIR: &str = "/vercel/sandbox/.local";

/// The name in the volume of where the agent keeps what is about to take its place in the workspace.
pub const STAGING_NAME: &str = ".staging";

/// Where the agent volume is mounted, read-only.
pub const AGENT_DIR: &str = "/.sandbox/bin";

/// The agent's program.
pub const AGENT_PROGRAM: &str = "/.sandbox/bin/sandbox-agent";

/// Name of the certificates beside it that the operator gives every sandbox.
pub const CA_BUNDLE_NAME: &str = "ca-bundle.pem";

/// Where the sandbox's directory of the run dir is mounted, read-only.
pub const RUN_DIR: &str = "/.sandbox/run";

/// Name of the socket in the run dir, on the host and inside.
pub const SOCKET_NAME: &str = "agent.sock";

/// Name of [`HOSTS`] in the run dir, on the host.
pub const HOSTS_NAME: &str = "hosts";

/// What a sandbox's `/etc/hosts` says. An engine writes one only for a container that has a network, for which it takes
/// longer than for all the rest of the start; and many a development server listens on `localhost`.
pub const HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n";

/// Name of [`PROFILE`] in the run dir, on the host.
pub const PROFILE_NAME: &str = "profile.sh";

/// Where [`PROFILE`] is mounted: the last of what `/etc/profile` reads, in every distribution that has such a directory.
pub const PROFILE_TARGET: &str = "/etc/profile.d/zz-sandbox-path.sh";

/// Gives a login shell the PATH it was started with, which Debian's `/etc/profile` overwrites. The image has it too, for
/// sandboxes without a run dir.
pub const PROFILE: &str = include_str!("profile.sh");

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

//! Options of a new sandbox, and the repository that it may contain.

use std::time::Duration;

use super::call::{Call, path};
use super::fault::Fault;
use super::wire::{CreateSandbox, Resources, Source, StartCommand, Started, millis};
use super::{HOME, Vercel, VercelOptions};

/// Moves a repository from where Vercel puts it into the workspace. It can be interrupted anywhere and run again.
const MOVE_SOURCE: &str = "set -e\n\
    if [ -e .git ]; then\n\
    mkdir -p .bash-tools-source\n\
    find . -mindepth 1 -maxdepth 1 ! -name .git ! -name .bash-tools-source -exec mv -t .bash-tools-source -- {} +\n\
    mv .git .bash-tools-source/\n\
    fi\n\
    if [ -d .bash-tools-source ]; then mv -T .bash-tools-source workspace; fi\n\
    mkdir -p workspace\n";

/// Deadline for the move, which stays within one file system.
const MOVE_SOURCE_TIMEOUT: Duration = Duration::from_secs(60);

impl Vercel {
    pub(super) async fn move_source(&self, session: &str) -> Result<(), Fault> {
        let request = StartCommand::bash(vec!["-c".into(), MOVE_SOURCE.into()], HOME, MOVE_SOURCE_TIMEOUT);
        let started: Started =
            self.api.json(&Call::post(path(&["sessions", session, "cmd"])).json(&request)).await?;
        let wait = Call::get(path(&["sessions", session, "cmd", &started.command.id])).query("wait", "true");
        let ended: Started = self.api.json(&wait.within(MOVE_SOURCE_TIMEOUT)).await?;
        match ended.command.exit_code {
            Some(0) => Ok(()),
            _ => Err(Fault::Unsendable {
                message: "the repository could not be moved into the workspace".into(),
            }),
        }
    }
}

impl VercelOptions {
    pub(super) fn body<'a>(&'a self, project_id: &'a str, name: &'a str) -> CreateSandbox<'a> {
        CreateSandbox {
            project_id,
            name,
            runtime: &self.runtime,
            resources: Resources { vcpus: self.vcpus },
            timeout: millis(self.timeout),
            ports: &self.ports,
            persistent: self.persistent,
            source: self.source.as_ref().map(|source| Source::Git {
                url: &source.url,
                revision: source.revision.as_deref(),
                depth: source.depth,
            }),
        }
    }
}

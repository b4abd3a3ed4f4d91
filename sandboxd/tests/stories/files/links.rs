//! Links: a link that stays in the workspace is followed, and none leads out of it, even while a command changes it.

use std::time::{Duration, Instant};

use sandbox_api::{ErrorCode, SandboxId};

use crate::support::files::{file, no_partial_write_is_left, read, write};
use crate::support::harness::{Daemon, outcome, over_each_transport, script, until};

/// Paths that the sandbox's user may write and the files API must not. Only the path check prevents it.
const OUTSIDE: &str = "/vercel/sandbox/.local/outside";

over_each_transport!(no_link_leads_out_of_the_workspace, a_link_that_stays_inside_is_followed);

async fn no_link_leads_out_of_the_workspace(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let prepare = format!(
        "mkdir -p {OUTSIDE} dir /vercel/sandbox/workspaceX; printf secret > {OUTSIDE}/file
         printf secret > /vercel/sandbox/workspaceX/file; printf secret > /tmp/file
         ln -s /etc/passwd passwd; ln -s /etc etc; ln -s {OUTSIDE}/file file; ln -s {OUTSIDE} outside
         ln -s ../workspaceX sibling; ln -s .. up; ln -s / root; ln -s /proc/self/environ environ
         ln -s /proc/self/root proot; ln -s /proc/self/cwd pcwd; ln -s /tmp/new dangling
         ln -s {OUTSIDE}/new dangling2; ln -s file chain; ln -s dir/../../workspaceX/file dotted"
    );
    daemon.output(&sandbox, &prepare).await;
    let look = format!("ls -lAR --time-style=+%s.%N {OUTSIDE} /vercel/sandbox/workspaceX; ls -ld /tmp/file*");
    let before = daemon.output(&sandbox, &look).await;
    let paths = [
        "/etc/passwd",
        "../workspaceX/file",
        "dir/../../workspaceX/file",
        "/vercel/sandbox/workspaceX/file",
        "/vercel/sandbox/workspace/../workspaceX/file",
        "/vercel/sandbox/.local/outside/file",
        "/tmp/file",
        "/proc/self/environ",
        "passwd",
        "etc/passwd",
        "file",
        "chain",
        "dotted",
        "outside/file",
        "sibling/file",
        "up/workspaceX/file",
        "root/etc/passwd",
        "environ",
        "proot/etc/passwd",
        "pcwd/file",
        "/..",
        "..",
        "up",
    ];
    for path in paths {
        let error = read(daemon, &sandbox, path).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Refused), "read {path}: {error}");
    }
    for path in paths.into_iter().chain(["dangling", "dangling2", "outside/new", "outside/new/dir/file"]) {
        let error = write(daemon, &sandbox, [file(path, "overwritten")]).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Refused), "write {path}: {error}");
    }
    assert_eq!(daemon.output(&sandbox, &look).await, before);
    no_partial_write_is_left(daemon, &sandbox).await;
}

async fn a_link_that_stays_inside_is_followed(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let prepare =
        "mkdir -p dir/below; printf old > dir/real; ln -s dir/real relative; ln -s ../real dir/below/up
                   ln -s $PWD/dir/real absolute; ln -s $PWD/dir dirlink; ln -s absolute chain";
    daemon.output(&sandbox, prepare).await;
    for (at, path) in
        ["relative", "dir/below/up", "absolute", "dirlink/real", "chain"].into_iter().enumerate()
    {
        let content = format!("version {at}");
        write(daemon, &sandbox, [file(path, &content)])
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(daemon.output(&sandbox, "cat dir/real").await, content, "through {path}");
        assert_eq!(read(daemon, &sandbox, path).await.unwrap().unwrap(), content.as_bytes(), "{path}");
    }
    write(daemon, &sandbox, [file("dirlink/new/file", "new")]).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat dir/new/file").await, "new");
    let links = daemon.output(&sandbox, "find . -type l | sort").await;
    assert_eq!(links, "./absolute\n./chain\n./dir/below/up\n./dirlink\n./relative\n", "they are still links");
    no_partial_write_is_left(daemon, &sandbox).await;
}

/// Repeatedly swaps links in place, as fast as it can: `leaf` is a link to a file, `spot` a link to a directory. Each
/// points inside or outside by turns.
const SWAPPER: &str = "import os, itertools
inside, outside = os.getcwd() + '/inside', '/vercel/sandbox/.local/outside'
leaves = ['inside/file', inside + '/file', '/etc/passwd', outside + '/file', '../.local/outside/file']
spots = ['inside', inside, outside, '../.local/outside']
def swap(name, target):
    os.symlink(target, 'next')
    os.replace('next', name)
for leaf, spot in zip(itertools.cycle(leaves), itertools.cycle(spots)):
    swap('leaf', leaf)
    swap('spot', spot)
    if os.path.exists('stop'):
        break
";

/// Counts of the outcomes of the attempts on a path.
#[derive(Debug, Default)]
struct Tally {
    done: usize,
    refused: usize,
}

impl Tally {
    fn add(&mut self, done: Result<bool, sandbox_client::Error>) {
        match done {
            Ok(true) => self.done += 1,
            Ok(false) => {}
            Err(error) => {
                assert_eq!(error.code(), Some(ErrorCode::Refused), "{error}");
                self.refused += 1;
            }
        }
    }
}

async fn read_inside(
    daemon: &Daemon,
    sandbox: &SandboxId,
    path: &str,
) -> Result<bool, sandbox_client::Error> {
    let content = read(daemon, sandbox, path).await?;
    let text = content.map(|content| String::from_utf8(content).unwrap());
    assert!(text.as_deref().is_none_or(|text| text.starts_with("inside")), "read {path}: {text:?}");
    Ok(text.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_swapped_in_a_tight_loop_never_leads_outside() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let prepare =
        format!("mkdir -p inside {OUTSIDE}; printf inside > inside/file; printf secret > {OUTSIDE}/file");
    daemon.output(&sandbox, &prepare).await;
    let look = format!("ls -lAR --time-style=+%s.%N {OUTSIDE}; cat {OUTSIDE}/file");
    let before = daemon.output(&sandbox, &look).await;
    write(&daemon, &sandbox, [file("swapper.py", SWAPPER)]).await.unwrap();
    let records = daemon.client.run(&sandbox, &script("exec python3 swapper.py")).await.unwrap();
    until("the links exist", || async {
        daemon.run(&sandbox, "[ -L leaf ] && [ -L spot ]").await.exit_code == 0
    })
    .await;

    let end = Instant::now() + Duration::from_secs(5);
    let attack = |path: &'static str| {
        let (daemon, sandbox) = (&daemon, &sandbox);
        async move {
            let (mut reads, mut writes) = (Tally::default(), Tally::default());
            while Instant::now() < end {
                reads.add(read_inside(daemon, sandbox, path).await);
                writes.add(write(daemon, sandbox, [file(path, "inside, written")]).await.map(|()| true));
            }
            (path, reads, writes)
        }
    };
    let tallies = futures::future::join3(attack("leaf"), attack("spot/file"), attack("spot/new")).await;

    write(&daemon, &sandbox, [file("stop", "")]).await.unwrap();
    let ended = outcome(records).await;
    // The attack itself writes to `leaf`, so only its regular end is checked.
    assert_eq!(ended.exit_code, 0, "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(daemon.output(&sandbox, &look).await, before);
    for (path, reads, writes) in [tallies.0, tallies.1, tallies.2] {
        // Both kinds of links were met, so the race took place.
        assert!(reads.done > 0 && reads.refused > 0, "{path}: {reads:?}");
        assert!(writes.done > 0 && writes.refused > 0, "{path}: {writes:?}");
    }
    no_partial_write_is_left(&daemon, &sandbox).await;
    daemon.stop().await;
}

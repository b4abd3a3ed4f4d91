//! The PATH of commands, of the shells they start, and of terminals.

use sandbox_api::command::StartCommand;
use sandbox_api::terminal::OpenTerminal;

use crate::support::harness::{Daemon, outcome, over_each_transport, script};
use crate::support::screens::{Viewer, open, shell};

over_each_transport!(
    user_installed_programs_are_found_by_commands_and_terminals,
    a_terminal_has_the_path_of_commands_or_its_own,
);

/// A login shell overwrites PATH in Debian's /etc/profile unless it is restored.
#[tokio::test(flavor = "multi_thread")]
async fn every_shell_keeps_the_path_of_its_command() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let plain = daemon.output(&sandbox, "echo \"$PATH\"").await;
    assert!(plain.starts_with("/vercel/sandbox/.local/bin:"), "{plain}");
    for shell in ["bash -c", "bash -lc", "sh -c", "sh -lc", "dash -lc"] {
        let script = format!("{shell} 'echo \"$PATH\"'");
        assert_eq!(daemon.output(&sandbox, &script).await, plain, "{shell}");
        let nested = format!("{shell} 'bash -lc \"sh -lc env\"' | sed -n s/^PATH=//p");
        assert_eq!(daemon.output(&sandbox, &nested).await, plain, "{nested}");
        // A PATH from the request, and one that a script sets before it starts a login shell.
        let argv: Vec<String> = shell.split(' ').skip(1).map(str::to_owned).collect();
        let request = StartCommand {
            cmd: shell.split(' ').next().map(str::to_owned),
            args: Some(argv.into_iter().chain(["echo \"$PATH\"".to_owned()]).collect()),
            env: Some([("PATH".to_owned(), "/opt/a b/bin:/usr/bin:/bin".to_owned())].into()),
            ..StartCommand::default()
        };
        let received = outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
        assert_eq!(received.text(), "/opt/a b/bin:/usr/bin:/bin\n", "{shell}");
        let own = format!("export PATH=/mine:$PATH; {shell} 'echo \"$PATH\"'");
        assert_eq!(daemon.output(&sandbox, &own).await, format!("/mine:{plain}"), "{shell}");
    }
    assert_eq!(daemon.output(&sandbox, "env -i /bin/bash -lc 'type -P ls'").await, "/usr/bin/ls\n");
    daemon.stop().await;
}

/// Installs `greet` with npm and `greetpy` with pip, without a network. Fails if either fails.
const INSTALL: &str = r#"set -e
mkdir tool
cd tool
echo '{"name":"greet","version":"1.0.0","bin":"greet.js"}' > package.json
printf '#!/usr/bin/env node\nconsole.log("from npm")\n' > greet.js
npm install --global --offline --no-audit --no-fund .
python3 - <<'PY'
import zipfile
with zipfile.ZipFile("greetpy-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("greetpy.py", "def main():\n    print('from pip')\n")
    wheel.writestr("greetpy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: greetpy\nVersion: 1.0\n")
    wheel.writestr("greetpy-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("greetpy-1.0.dist-info/entry_points.txt", "[console_scripts]\ngreetpy = greetpy:main\n")
    wheel.writestr("greetpy-1.0.dist-info/RECORD", "")
PY
pip install --user --no-index --quiet ./greetpy-1.0-py3-none-any.whl
"#;

async fn user_installed_programs_are_found_by_commands_and_terminals(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let request = StartCommand { timeout_ms: Some(120_000), ..script(INSTALL) };
    let installed = outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
    assert_eq!(installed.exit_code, 0, "{}", String::from_utf8_lossy(&installed.stderr));
    for shell in ["bash -c", "bash -lc", "sh -c", "sh -lc"] {
        let received = daemon.output(&sandbox, &format!("{shell} 'greet; greetpy'")).await;
        assert_eq!(received, "from npm\nfrom pip\n", "{shell}");
    }
    let terminal = shell(daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.type_in("greet; greetpy; type -P greet greetpy\r").await;
    let bin = "/vercel/sandbox/.local/bin";
    viewer.until_seen(&format!("from npm\r\nfrom pip\r\n{bin}/greet\r\n{bin}/greetpy\r\n")).await;
}

async fn a_terminal_has_the_path_of_commands_or_its_own(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let plain = daemon.output(&sandbox, "echo \"$PATH\"").await.trim_end().to_owned();
    let own = "/opt/a b/bin:/usr/bin:/bin".to_owned();
    let with_own =
        OpenTerminal { env: Some([("PATH".to_owned(), own.clone())].into()), ..OpenTerminal::default() };
    for (request, path) in [(OpenTerminal::default(), plain), (with_own, own)] {
        let terminal = open(daemon, &sandbox, &request).await;
        let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
        viewer.type_in("echo \"[$PATH]\"\r").await;
        viewer.until_seen(&format!("[{path}]\r\n")).await;
        viewer.type_in("bash -lc 'echo \"<$PATH>\"'; sh -lc 'echo \"<$PATH>\"'\r").await;
        viewer.until_seen(&format!("<{path}>\r\n<{path}>\r\n")).await;
    }
}

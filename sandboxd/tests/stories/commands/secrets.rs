//! `secretEnv`: values that are replaced in the output of commands and terminals.

use sandbox_api::command::{RunCommand, StartCommand};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::terminal::OpenTerminal;
use sandbox_api::{ErrorCode, SandboxId};

use crate::support::harness::{Daemon, outcome, over_each_transport, script};
use crate::support::screens::{Viewer, open};

over_each_transport!(a_secret_is_in_no_output, a_secret_is_on_no_terminal);

const KEY: &str = "sk-0123456789";
const PASSWORD: &str = "correct horse\nbattery staple";

fn request(key: &str, names: &[&str]) -> CreateSandbox {
    let env = [("KEY", KEY), ("PASSWORD", PASSWORD), ("SHORT", "short"), ("OTHER", "not-secret")];
    CreateSandbox {
        session_key: key.into(),
        env: Some(env.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        secret_env: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..CreateSandbox::default()
    }
}

async fn shown(daemon: &Daemon, sandbox: &SandboxId, text: &str) -> (String, String) {
    let request = RunCommand { command: script(text), output: None };
    let ran = daemon.client.run_to_end(sandbox, &request).await.unwrap();
    (ran.stdout, ran.stderr)
}

async fn a_secret_is_in_no_output(daemon: &Daemon) {
    for (names, problem) in [(["SHORT"], "8 to 4096"), (["NONE"], "not in `env`")] {
        let error = daemon.client.create_or_reconnect(&request("chat:bad", &names)).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::InvalidRequest));
        assert!(error.to_string().contains(problem), "{error}");
    }
    let create = request("chat:1", &["KEY", "PASSWORD", "KEY"]);
    let sandbox = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    let again = daemon.client.create_or_reconnect(&request("chat:1", &["KEY"])).await.unwrap();
    assert_eq!(again.ignored, ["secretEnv"]);
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().secret_env, ["KEY", "PASSWORD"]);

    // The command itself has the values.
    let text = "echo ${#KEY} $OTHER; echo \"a $KEY b $PASSWORD c\"; echo \"$KEY\" >&2; env | grep KEY";
    let wanted = "13 not-secret\na [KEY] b [PASSWORD] c\nKEY=[KEY]\n";
    assert_eq!(shown(daemon, &sandbox, text).await, (wanted.into(), "[KEY]\n".into()));
    // Also across writes, at the end of the output, and in another value of the same name.
    let split = "printf 'a %s' ${KEY:0:4}; sleep 0.2; printf %s ${KEY:4:5}; sleep 0.2; printf %s ${KEY:9}; printf sk-";
    assert_eq!(shown(daemon, &sandbox, split).await.0, "a [KEY]sk-");
    let own = StartCommand {
        env: Some([("KEY".into(), "another value".into())].into()),
        ..script("echo $KEY; echo sk-0123456789")
    };
    let streamed = outcome(daemon.client.run(&sandbox, &own).await.unwrap()).await;
    assert_eq!(streamed.text(), "[KEY]\n[KEY]\n");
    let debug = StartCommand { debug: Some(true), ..script("true $KEY") };
    let traced = outcome(daemon.client.run(&sandbox, &debug).await.unwrap()).await;
    assert_eq!(String::from_utf8(traced.trace).unwrap(), "+ true '[KEY]'\n".replace('\'', ""));
    // Colours, which are not part of a result, hide no value.
    let coloured = "echo a $KEY | grep --color=always 0123; printf 'sk-01\\e[1m23456789\\e[m\\n' >&2";
    assert_eq!(shown(daemon, &sandbox, coloured).await, ("a [KEY]\n".into(), "[KEY]\n".into()));
    // The file with a long output has what was shown.
    let request = RunCommand { command: script("yes $KEY | head -n 20000"), output: None };
    let ran = daemon.client.run_to_end(&sandbox, &request).await.unwrap();
    let content = daemon.client.get_file(&sandbox, &ran.output_path.unwrap(), None).await.unwrap();
    assert_eq!(content.bytes(1 << 20).await.unwrap(), "[KEY]\n".repeat(20_000).as_bytes());

    // It stays so after the sandbox was parked.
    daemon.client.park(&sandbox, true).await.unwrap();
    assert_eq!(shown(daemon, &sandbox, "echo $KEY").await.0, "[KEY]\n");
}

async fn a_secret_is_on_no_terminal(daemon: &Daemon) {
    let create = request("chat:1", &["KEY", "PASSWORD"]);
    let sandbox = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    let text = "echo \"a $KEY b\"; echo \"$PASSWORD\"; printf %s ${KEY:0:4}; printf '%s\n' ${KEY:4}; \
                echo \"own $SHOWN\"; printf 'name sk-'; read -r line; echo \"read $line ${KEY}!\"";
    let request = OpenTerminal {
        cmd: Some("bash".into()),
        args: Some(vec!["-c".into(), text.into()]),
        env: Some([("SHOWN".into(), "not-secret".into())].into()),
        ..OpenTerminal::default()
    };
    let terminal = open(daemon, &sandbox, &request).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.until_seen("a [KEY] b\r\n[PASSWORD]\r\n[KEY]\r\nown not-secret\r\n").await;
    // What may begin a value is shown while the program waits for a person.
    viewer.until_seen("name sk-").await;
    let screen = daemon.client.terminal(&sandbox, &terminal).await.unwrap().screen.unwrap();
    assert_eq!(screen.trim_end(), "a [KEY] b\n[PASSWORD]\n[KEY]\nown not-secret\nname sk-");
    viewer.type_in("sk-0\r").await;
    viewer.until_seen("read sk-0 [KEY]!").await;
    assert_eq!(viewer.exit().await.0, 0);
    let mut later = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    later.until_seen("read sk-0 [KEY]!").await;
    for seen in [viewer.seen(), later.seen()] {
        assert!(!seen.contains(KEY) && !seen.contains("battery"), "{seen}");
    }

    // A variable of the terminal's own under a secret's name is secret too, and so it stays in a shell.
    let own = OpenTerminal {
        env: Some([("KEY".into(), "another value".into())].into()),
        ..OpenTerminal::default()
    };
    let terminal = open(daemon, &sandbox, &own).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.type_in("echo \"is $KEY\"; echo \"was sk-01\"23456789\r").await;
    viewer.until_seen("\ris [KEY]\r\nwas [KEY]\r\n").await;
}

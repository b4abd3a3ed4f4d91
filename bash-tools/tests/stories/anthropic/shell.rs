//! The persistent shell: the state that it keeps.

use bash_tools::tools::anthropic::ShellInput;
use bash_tools::tools::{BashOutput, Error, Toolkit};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Fixture, all, over_each_provider, run};

over_each_provider!(
    a_shell_keeps_its_state_until_a_restart,
    every_kind_of_variable_is_kept,
    variables_of_each_command_are_not_kept,
    functions_of_any_name_are_kept_and_do_not_break_the_tool,
    options_aliases_and_traps_are_kept,
    directories_are_kept,
    line_numbers_are_those_of_the_command,
);

pub(super) async fn shell(tools: &Toolkit, command: &str) -> BashOutput {
    let input = ShellInput { command: Some(command.into()), restart: None };
    all(tools.shell(input, CancellationToken::new())).await.pop().unwrap()
}

pub(super) async fn restart(tools: &Toolkit) -> BashOutput {
    let restart = ShellInput { command: None, restart: Some(true) };
    all(tools.shell(restart, CancellationToken::new())).await.pop().unwrap()
}

/// Runs commands one after the other. Each must write exactly the text beside it.
pub(super) async fn write(tools: &Toolkit, commands: &[(&str, &str)]) {
    for (command, wanted) in commands {
        let reported = shell(tools, command).await;
        let reported = (reported.stdout.as_str(), reported.stderr.as_str(), reported.exit_code);
        assert_eq!(reported, (*wanted, "", 0), "{command}");
    }
}

async fn a_shell_keeps_its_state_until_a_restart(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let begun = r#"mkdir -p "a b" && cd "a b"; x=$'one\ntwo'; export y="it's"; list=(1 "2 3"); declare -A map=([k]=v); greet() { echo "hi $1"; }; alias ll='ls -l'; shopt -s expand_aliases; set -u; umask 027"#;
    assert_eq!(shell(&tools, begun).await.exit_code, 0);
    let reported = shell(
        &tools,
        r#"pwd; echo "$x|$y|${list[1]}|${map[k]}"; greet you; bash -c 'echo $y'; type -t ll; umask"#,
    )
    .await;
    let wanted = "/vercel/sandbox/workspace/a b\none\ntwo|it's|2 3|v\nhi you\nit's\nalias\n0027\n";
    assert_eq!((reported.stdout.as_str(), reported.stderr.as_str(), reported.exit_code), (wanted, "", 0));
    assert_ne!(shell(&tools, "echo $nothing").await.exit_code, 0, "set -u holds");
    assert_eq!(shell(&tools, "unset x; echo \"${x-gone}\"").await.stdout, "gone\n");
    assert_eq!(shell(&tools, "echo \"${x-gone}\"").await.stdout, "gone\n");
    assert_eq!(
        run(&tools, "pwd").await.stdout,
        "/vercel/sandbox/workspace\n",
        "the other tool's shell is fresh"
    );

    assert_eq!(restart(&tools).await.stdout, "tool has been restarted.\n");
    assert_eq!(shell(&tools, "pwd; echo \"${y-none}\"").await.stdout, "/vercel/sandbox/workspace\nnone\n");
    let both = ShellInput { command: Some("true".into()), restart: Some(true) };
    let refused: Vec<_> = futures::StreamExt::collect(tools.shell(both, CancellationToken::new())).await;
    assert!(matches!(refused[..], [Err(Error::BadInput { field: "command", .. })]), "{refused:?}");
}

async fn every_kind_of_variable_is_kept(fixture: &Fixture) {
    let tools = fixture.tools("1");
    write(
        &tools,
        &[
            ("name=1 options=2 line=3; IFS=:", ""),
            (r#"echo "$name $options $line"; set -- a b; x=1:2; printf '[%s]' $x"#, "1 2 3\n[1][2]"),
            ("echo $2; unset IFS; readonly fixed=5; declare -A map; declare -i sum; un=1", "b\n"),
            (
                "map[k v]=w; sum=2+3; echo ${map[k v]} $sum $fixed; (fixed=6) 2>/dev/null || echo fixed",
                "w 5 5\nfixed\n",
            ),
            ("declare -n ref=un; list=([3]=a [7]='b c'); text=$'declare -x fake=1\\nUID'; unset HOME", ""),
            (
                "echo $ref ${!list[@]} \"${list[7]}\"; echo \"$text\"; echo ${fake-none} ${HOME-gone}",
                "1 3 7 b c\ndeclare -x fake=1\nUID\nnone gone\n",
            ),
            ("f() { local IFS=';' g; g; }; g() { local IFS=/; exit; }; after=1; f x y z", ""),
            ("echo $after $#; x='a b'; printf '[%s]' $x", "1 2\n[a][b]"),
            // No program can start with this variable in its environment.
            ("export big=$(printf %0300000d 0); w=1", ""),
            ("echo ${#big} $w; unset big", "300000 1\n"),
            ("ls -d /; echo ${big-none}", "/\nnone\n"),
        ],
    )
    .await;
    assert_eq!(shell(&tools, "(exit 7)").await.exit_code, 7);
    assert_eq!(shell(&tools, "echo $?").await.stdout, "7\n");
}

async fn variables_of_each_command_are_not_kept(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let mark = "echo ${SANDBOX_COMMAND_ID-}${BASH_TOOLS_COMMAND-}";
    let first = shell(&tools, mark).await.stdout;
    let second = shell(&tools, mark).await.stdout;
    assert!(first.len() > 8 && second.len() > 8, "{first:?} {second:?}");
    assert_ne!(first, second);
    let mine = shell(&tools, "env | sort >a; env -0 | grep -zc .").await;
    assert_eq!(mine.exit_code, 0, "{mine:?}");
}

async fn functions_of_any_name_are_kept_and_do_not_break_the_tool(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let theirs = "cd mv printf set shopt declare trap eval mapfile echo rm exit unset";
    let define = format!("for f in {theirs}; do builtin eval \"$f() {{ :; }}\"; done; kept=1");
    write(
        &tools,
        &[
            (define.as_str(), ""),
            ("builtin echo $kept; builtin type -t cd mapfile; kept=2", "1\nfunction\nfunction\n"),
            ("builtin echo $kept; builtin() { :; }; kept=3", "2\n"),
            ("builtin echo $kept; builtin unset -f echo unset", "3\n"),
            ("foo-bar() { echo fb; }; @q() { echo q; }; function if { echo if; }; a.b() { echo ab; }", ""),
            (
                "foo-bar; @q; \\if; a.b; say() { echo \"said $1\"; }; export -f say; readonly -f say",
                "fb\nq\nif\nab\n",
            ),
            ("bash -c 'say 1'; unset -f a.b", "said 1\n"),
            ("bash -c 'say 2'; type -t a.b || builtin echo none", "said 2\nnone\n"),
        ],
    )
    .await;
}

async fn options_aliases_and_traps_are_kept(fixture: &Fixture) {
    let tools = fixture.tools("1");
    write(
        &tools,
        &[
            ("shopt -s expand_aliases extglob nocasematch; alias two='echo 2'; alias -- -='cd -'", ""),
            (
                "two; case A in a) echo same;; esac; [[ ab == @(ab|c) ]] && alias -- -",
                "2\nsame\nalias -- -='cd -'\n",
            ),
            ("unalias -a; shopt -u nocasematch; trap 'echo \"usr\n1\"' USR1; trap 'echo bye' EXIT", ""),
            ("kill -USR1 $$; trap -p EXIT", "usr\n1\ntrap -- 'echo bye' EXIT\n"),
            ("trap - EXIT USR1; trap 'echo wrong' ERR; false; true", "wrong\n"),
            (
                "trap -p ERR; trap - ERR; set -o noclobber -o noglob -o posix; set -a",
                "trap -- 'echo wrong' ERR\n",
            ),
            ("echo *; exported=1; set -o | grep -c 'posix .*on'", "*\n1\n"),
            ("env | grep ^exported; set +o posix +o noglob +o allexport +o noclobber", "exported=1\n"),
            ("ulimit -S -n 99; umask 027", ""),
            ("ulimit -S -n; umask; looks='open files (-n) 5'", "99\n0027\n"),
            ("ulimit -S -n; echo $looks", "99\nopen files (-n) 5\n"),
        ],
    )
    .await;
    let traced = shell(&tools, "set -x; y=1").await;
    assert_eq!(traced.stderr, "++ y=1\n");
    let traced = shell(&tools, "echo hi").await;
    assert_eq!((traced.stdout.as_str(), traced.stderr.as_str()), ("hi\n", "++ echo hi\n"));
    assert_eq!(shell(&tools, "set +x").await.stderr, "++ set +x\n");
}

async fn directories_are_kept(fixture: &Fixture) {
    let tools = fixture.tools("1");
    write(
        &tools,
        &[
            ("mkdir -p 'a b' c gone; cd 'a b'; cd ../c", ""),
            ("cd - >/dev/null; basename \"$PWD\" \"$OLDPWD\"; pushd /etc >/dev/null; pushd /usr >/dev/null", "a b\n"),
            ("popd >/dev/null; pwd; popd >/dev/null; basename \"$PWD\"", "/etc\na b\n"),
            ("cd ../gone; rmdir ../gone", ""),
        ],
    )
    .await;
    let reported = shell(&tools, "pwd").await;
    assert_eq!(reported.stdout, "/vercel/sandbox/workspace\n");
    assert!(reported.stderr.contains("/vercel/sandbox/workspace/gone is gone"), "{reported:?}");
}

async fn line_numbers_are_those_of_the_command(fixture: &Fixture) {
    let tools = fixture.tools("1");
    let reported = shell(&tools, "nosuch1\nnosuch2").await;
    assert!(
        reported.stderr.contains("line 1: nosuch1") && reported.stderr.contains("line 2: nosuch2"),
        "{reported:?}"
    );
    for (command, wanted) in
        [("cat <<EOF\nfoo", "foo\n"), ("echo a \\", "a \\\n"), ("# nothing", ""), ("", ""), ("echo \"", "")]
    {
        assert_eq!(shell(&tools, command).await.stdout, wanted, "{command}");
    }
    let long = format!("x='{}'; printf %s \"$x\" | wc -c", "é".repeat(150_000));
    assert_eq!(shell(&tools, &long).await.stdout.lines().last(), Some("300000"));
}

//! The tools that Anthropic's models know.

use bash_tools::tools::anthropic::{EditorInput, ShellInput};
use bash_tools::tools::{BashOutput, Error, Toolkit};
use tokio_util::sync::CancellationToken;

use crate::place::{Place, all, over_each_provider, run};

over_each_provider!(
    a_shell_remembers_until_it_is_restarted,
    a_shell_that_fails_is_not_forgotten,
    a_file_is_made_looked_at_and_edited,
    a_directory_is_looked_at,
);

async fn shell(tools: &Toolkit, command: &str) -> BashOutput {
    let input = ShellInput { command: Some(command.into()), restart: None };
    all(tools.shell(input, CancellationToken::new())).await.pop().unwrap()
}

async fn a_shell_remembers_until_it_is_restarted(place: &Place) {
    let tools = place.tools("1");
    let begun = r#"mkdir -p "a b" && cd "a b"; x=$'one\ntwo'; export y="it's"; list=(1 "2 3"); declare -A map=([k]=v); greet() { echo "hi $1"; }; alias ll='ls -l'; shopt -s expand_aliases; set -u; umask 027"#;
    assert_eq!(shell(&tools, begun).await.exit_code, 0);
    let told = shell(
        &tools,
        r#"pwd; echo "$x|$y|${list[1]}|${map[k]}"; greet you; bash -c 'echo $y'; type -t ll; umask"#,
    )
    .await;
    let wanted = "/vercel/sandbox/workspace/a b\none\ntwo|it's|2 3|v\nhi you\nit's\nalias\n0027\n";
    assert_eq!((told.stdout.as_str(), told.stderr.as_str(), told.exit_code), (wanted, "", 0));
    assert_ne!(shell(&tools, "echo $nothing").await.exit_code, 0, "set -u holds");
    assert_eq!(shell(&tools, "unset x; echo \"${x-gone}\"").await.stdout, "gone\n");
    assert_eq!(shell(&tools, "echo \"${x-gone}\"").await.stdout, "gone\n");
    assert_eq!(
        run(&tools, "pwd").await.stdout,
        "/vercel/sandbox/workspace\n",
        "the other tool's shell is fresh"
    );

    let restart = ShellInput { command: None, restart: Some(true) };
    let restarted = all(tools.shell(restart, CancellationToken::new())).await.pop().unwrap();
    assert_eq!(restarted.stdout, "tool has been restarted.\n");
    assert_eq!(shell(&tools, "pwd; echo \"${y-none}\"").await.stdout, "/vercel/sandbox/workspace\nnone\n");
    let both = ShellInput { command: Some("true".into()), restart: Some(true) };
    let refused: Vec<_> = futures::StreamExt::collect(tools.shell(both, CancellationToken::new())).await;
    assert!(matches!(refused[..], [Err(Error::BadInput { field: "command", .. })]), "{refused:?}");
}

async fn a_shell_that_fails_is_not_forgotten(place: &Place) {
    let tools = place.tools("1");
    assert_eq!(shell(&tools, "x=1; exit 3").await.exit_code, 3);
    assert_eq!(shell(&tools, "echo $x; (exit 4)").await.exit_code, 4);
    assert_eq!(shell(&tools, "set -e; false; echo never").await.exit_code, 1);
    let after = shell(&tools, "set +e; echo $x").await;
    assert_eq!((after.exit_code, after.stdout.as_str()), (0, "1\n"));
    assert_eq!(shell(&tools, "readonly fixed=1; fixed_too=2").await.exit_code, 0);
    let own = shell(&tools, "echo \"'\\\"$fixed_too\"; # a comment").await;
    assert_eq!((own.stdout.as_str(), own.stderr.as_str()), ("'\"2\n", ""));
}

async fn a_file_is_made_looked_at_and_edited(place: &Place) {
    let tools = place.tools("1");
    let path = || "src/it's.txt".to_owned();
    let file_text = "one\ntwo\nthree\n".to_owned();
    tools.edit(EditorInput::Create { path: path(), file_text }).await.unwrap();
    let view = |view_range| tools.edit(EditorInput::View { path: path(), view_range });
    assert_eq!(view(None).await.unwrap(), "     1\tone\n     2\ttwo\n     3\tthree\n");
    assert_eq!(view(Some((2, 3))).await.unwrap(), "     2\ttwo\n     3\tthree\n");
    assert_eq!(view(Some((3, -1))).await.unwrap(), "     3\tthree\n");
    let replace = |old: &str, new: &str| {
        tools.edit(EditorInput::StrReplace { path: path(), old_str: old.into(), new_str: new.into() })
    };
    let told = replace("two", "2\n2.5").await.unwrap();
    assert!(told.contains("     2\t2\n     3\t2.5\n"), "{told}");
    assert!(replace("two", "x").await.unwrap_err().to_string().contains("verbatim"));
    let insert = EditorInput::Insert { path: path(), insert_line: 1, insert_text: "1.5".into() };
    tools.edit(insert).await.unwrap();
    assert_eq!(run(&tools, "cat \"src/it's.txt\"").await.stdout, "one\n1.5\n2\n2.5\nthree\n");
    let missing = EditorInput::View { path: "missing".into(), view_range: None };
    assert_eq!(tools.edit(missing).await.unwrap_err().to_string(), "File not found: missing");
}

async fn a_directory_is_looked_at(place: &Place) {
    let tools = place.tools("1");
    run(
        &tools,
        "mkdir -p d/e/f .hidden; touch 'd/a file' d/e/g d/.secret d/e/f/deep; ln -s /etc/passwd d/link",
    )
    .await;
    let entries = tools.edit(EditorInput::View { path: "d".into(), view_range: None }).await.unwrap();
    assert_eq!(entries, "a file\ne/\ne/f/\ne/g\nlink");
    let range = EditorInput::View { path: "d".into(), view_range: Some((1, 2)) };
    assert!(tools.edit(range).await.unwrap_err().to_string().contains("view_range"));
}

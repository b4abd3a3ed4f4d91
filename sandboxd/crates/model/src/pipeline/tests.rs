use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

/// The texts of the stages.
fn stages(script: &str) -> Result<Vec<&str>, SplitError> {
    Ok(last_pipeline(script)?.into_iter().map(|stage| &script[stage.text]).collect())
}

/// Scripts with the stages of their last pipeline.
const SPLIT: [(&str, &[&str]); 44] = [
    ("seq 9 | tail -1", &["seq 9", "tail -1"]),
    ("a|b|c", &["a", "b", "c"]),
    ("a |& b", &["a", "b"]),
    ("a |\n  # why\n  b |\n\n c # end\n", &["a", "b", "c"]),
    ("a \\\n  | b", &["a", "b"]),
    ("! a | b", &["a", "b"]),
    ("time -p a | b;", &["a", "b"]),
    ("cd x && a | b", &["a", "b"]),
    ("set -euo pipefail\nx=$(a | b)\nc | d\n", &["c", "d"]),
    ("a | b || c | d", &["c", "d"]),
    ("a & b | c", &["b", "c"]),
    ("a; b", &[]),
    ("", &[]),
    ("# nothing", &[]),
    ("a | b; c", &[]),
    ("a | b & wait", &[]),
    ("f() { a | b; }; f", &[]),
    ("(a | b)", &[]),
    ("{ a | b; }", &[]),
    ("echo 'a | b' | c", &["echo 'a | b'", "c"]),
    ("echo \"a | $(b | \"c)\" 'd)') | e\" | f", &["echo \"a | $(b | \"c)\" 'd)') | e\"", "f"]),
    ("echo $'it\\'s | x' a\\|b `x | y` | f", &["echo $'it\\'s | x' a\\|b `x | y`", "f"]),
    ("echo ${x:-a | b} ${y#\"}\"} ${#z} $# $$ | f", &["echo ${x:-a | b} ${y#\"}\"} ${#z} $# $$", "f"]),
    ("echo $((1 | (2 << 3))) | f", &["echo $((1 | (2 << 3)))", "f"]),
    ("((x | 1)) && a | b", &["a", "b"]),
    ("x=(a 'b|c' # d\n e) a+=(1); f | g", &["f", "g"]),
    ("cat <<EOF | sort\nb | c\na\nEOF\n", &["cat <<EOF", "sort"]),
    ("cat <<-'E F' - <<\"Z\" | sort\n\tb\n\tE F\nZ |\nZ", &["cat <<-'E F' - <<\"Z\"", "sort"]),
    ("cat <<< 'x | y' | cat 2>&1 >f | b &>> g", &["cat <<< 'x | y'", "cat 2>&1 >f", "b &>> g"]),
    ("diff <(a | b) <(c) | d > >(e | f)", &["diff <(a | b) <(c)", "d > >(e | f)"]),
    (
        "if a | b; then c; elif d; then e; else f; fi | g",
        &["if a | b; then c; elif d; then e; else f; fi", "g"],
    ),
    ("for i in a b; do x | y; done | sort", &["for i in a b; do x | y; done", "sort"]),
    (
        "for ((i = 0; i < 3; i++)); do echo $i; done | sort",
        &["for ((i = 0; i < 3; i++)); do echo $i; done", "sort"],
    ),
    ("for x do echo \"$x\"; done 2>&1 | z", &["for x do echo \"$x\"; done 2>&1", "z"]),
    (
        "a | while IFS='|' read -r x; do echo; done < f {fd}>g",
        &["a", "while IFS='|' read -r x; do echo; done < f {fd}>g"],
    ),
    ("until false; do break; done | b", &["until false; do break; done", "b"]),
    (
        "case $x in a|b) c | d;; (\"e\") ;& *) f ;; esac | g",
        &["case $x in a|b) c | d;; (\"e\") ;& *) f ;; esac", "g"],
    ),
    ("x=$(case a in a) echo '|' ;; esac); a | b", &["a", "b"]),
    ("[[ $x =~ ^(a|b)$ || ( -z $y ) ]] && a | b", &["a", "b"]),
    ("function f { a | b; }\ng () ( c | d ) 2>e\nf | g", &["f", "g"]),
    ("ls !(a|b)* @(c|d) | e", &["ls !(a|b)* @(c|d)", "e"]),
    ("echo ] } done if { | cat", &["echo ] } done if {", "cat"]),
    ("echo a#b '#' | c#d", &["echo a#b '#'", "c#d"]),
    ("echo é | grep -o 'ü|é'", &["echo é", "grep -o 'ü|é'"]),
];

#[test]
fn the_last_pipeline_is_split_between_its_stages() {
    for (script, expected) in SPLIT {
        assert_eq!(stages(script).as_deref(), Ok(expected), "{script}");
    }
}

#[test]
fn the_position_after_an_operator_is_found() {
    let script = "x; a |& b\\\n | # c\n d";
    let found: Vec<_> = last_pipeline(script).unwrap().into_iter().map(|stage| stage.next).collect();
    assert_eq!(found, [Some(7), Some(13), None]);
}

#[test]
fn what_is_not_understood_is_refused() {
    for script in [
        "a | 'b",
        "a | \"b",
        "a | $(b",
        "a | `b",
        "a | ${b",
        "a | $((b",
        "a | (b",
        "a | { b; c",
        "a | b)",
        "a | b;;",
        "a | | b",
        "a |",
        "a &&",
        "| a",
        "a | b \\",
        "cat <<EOF | b\nx",
        "cat << | b",
        "cat <<$(x) | b\n$(x)\n",
        "if a; then b | c",
        "for",
        "case x in a) b | c",
        "[[ a | b",
        "a | b fi )",
        "coproc a | b",
        "echo $[1|2] | c",
        "echo ${ a | b; } | c",
        "echo \"${x:-'}\" | c'",
        "((a | b\n))",
        "a | then b",
        "fi | a",
        "a | b; }",
    ] {
        assert!(matches!(last_pipeline(script), Err(SplitError::NotUnderstood { .. })), "{script}");
    }
}

#[test]
fn a_pipeline_in_the_background_is_refused() {
    assert_eq!(last_pipeline("a | b &"), Err(SplitError::Background));
}

#[test]
fn deep_nesting_is_refused() {
    for unit in ["$(", "\"$(", "(", "{ ", "if ", "${x:-", "f() { ", "@(", "a=(", "$((", "! { ", "[[ $("] {
        assert!(last_pipeline(&unit.repeat(100_000)).is_err(), "{unit}");
    }
}

/// Whether bash takes a script for valid.
fn is_valid(script: &str) -> bool {
    let mut bash = Command::new("bash");
    bash.args(["-O", "extglob", "-n", "-c", script]).stderr(Stdio::null());
    bash.status().unwrap().success()
}

/// The script with a stage more after each stage but the last.
fn with_more_stages(script: &str) -> String {
    let mut longer = script.to_owned();
    for stage in last_pipeline(script).unwrap().iter().rev() {
        if let Some(next) = stage.next {
            longer.insert_str(next, " { exec cat; } 2>/dev/null |");
        }
    }
    longer
}

#[test]
fn a_split_script_is_valid_with_more_stages() {
    for (script, _) in SPLIT {
        assert!(is_valid(script), "{script}");
        assert!(is_valid(&with_more_stages(script)), "{script}");
    }
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b",
        " ",
        " ",
        "|",
        "|&",
        "||",
        "&&",
        "&",
        ";",
        "\n",
        "(",
        ")",
        "{ ",
        " }",
        "'",
        "\"",
        "`",
        "$(",
        "${",
        "}",
        "$((",
        "))",
        "\\",
        "#",
        "<<E",
        "\nE\n",
        "<",
        ">",
        "<(",
        "if ",
        "then ",
        " fi",
        "for i in ",
        "do ",
        " done",
        "case ",
        " in ",
        ";;",
        " esac",
        "[[ ",
        " ]]",
        "!",
        "x=",
        "f() ",
        "while ",
        "2>&1",
        "é",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A valid script that was cut within a word or command would not be valid any more, or have other stages.
    #[test]
    fn any_script_is_refused_or_split_between_its_stages(script in pieces()) {
        if let Ok(stages) = last_pipeline(&script) && !stages.is_empty() && is_valid(&script) {
            let longer = with_more_stages(&script);
            prop_assert!(is_valid(&longer), "{longer}");
            prop_assert_eq!(last_pipeline(&longer).unwrap().len(), stages.len() * 2 - 1);
        }
    }
}

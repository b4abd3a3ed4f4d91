//! The scripts that are compared: a file of them, and some for each of bash's options, builtins and signals.

/// The scripts of the file are separated by empty lines.
const FILE: &str = include_str!("scripts.sh");

/// Those of signal(7) that do not stop a process.
const SIGNALS: [u32; 27] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 23, 24, 25, 26, 27, 28, 29, 30, 31];

/// The options of `set`, except the one without which nothing would run.
const SET: [&str; 26] = [
    "allexport",
    "braceexpand",
    "emacs",
    "errexit",
    "errtrace",
    "functrace",
    "hashall",
    "histexpand",
    "history",
    "ignoreeof",
    "interactive-comments",
    "keyword",
    "monitor",
    "noclobber",
    "noglob",
    "nolog",
    "notify",
    "nounset",
    "onecmd",
    "physical",
    "pipefail",
    "posix",
    "privileged",
    "verbose",
    "vi",
    "xtrace",
];

const SHOPT: [&str; 40] = [
    "assoc_expand_once",
    "autocd",
    "cdable_vars",
    "cdspell",
    "checkhash",
    "checkjobs",
    "checkwinsize",
    "cmdhist",
    "complete_fullquote",
    "direxpand",
    "dirspell",
    "dotglob",
    "execfail",
    "expand_aliases",
    "extdebug",
    "extglob",
    "extquote",
    "failglob",
    "force_fignore",
    "globasciiranges",
    "globskipdots",
    "globstar",
    "gnu_errfmt",
    "histappend",
    "histreedit",
    "histverify",
    "hostcomplete",
    "huponexit",
    "inherit_errexit",
    "interactive_comments",
    "lastpipe",
    "lithist",
    "localvar_inherit",
    "localvar_unset",
    "noexpand_translation",
    "nocaseglob",
    "nocasematch",
    "patsub_replacement",
    "sourcepath",
    "xpg_echo",
];

const BUILTINS: [&str; 61] = [
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// All scripts.
pub(super) fn scripts() -> Vec<String> {
    let mut scripts: Vec<String> =
        FILE.split("\n\n").map(|script| script.trim_matches('\n').to_owned()).collect();
    scripts.extend(SIGNALS.map(|signal| format!("echo before; kill -{signal} $$; echo after $?")));
    scripts.extend(SIGNALS.map(|signal| {
        format!("trap 'echo trapped' {signal}; (kill -{signal} $$); sleep 0.02; trap -p; bash -c 'trap -p'")
    }));
    scripts.extend(
        SET.map(|option| format!("set -o {option}; echo \"$-\"; false; echo $SHELLOPTS $none; echo *")),
    );
    scripts
        .extend(SHOPT.map(|option| {
            format!("shopt -s {option}; shopt -p {option}; echo $? none*; echo \"$BASHOPTS\"")
        }));
    scripts.extend(
        BUILTINS.map(|builtin| format!("type {builtin}; {builtin} --nosuch </dev/null; echo $? {builtin}")),
    );
    scripts
}

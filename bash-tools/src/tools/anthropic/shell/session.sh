# Runs inside the shell of a call: restores the state of the previous call, runs the command, and saves the new state. $1 is
# this text, $2 the state or nothing, $3 where to save the next one or nothing, $4 is run at the end. The rest is the command,
# in pieces.
#
# All names begin with __bash_tools and are not saved. While the state is saved, everything may be the user's: functions
# called cd or printf, IFS, options, traps. So only builtins are used, explicitly, and no words are split.
__bash_tools_from=$2 __bash_tools_to=$3 __bash_tools_at_end=$4 __bash_tools_options=$SHELLOPTS __bash_tools_shopts=$BASHOPTS
__bash_tools_said=${3%.left}.said __bash_tools_seen=0
shift 4
printf -v __bash_tools_command %s "$@"
set --

# Variables that a shell sets itself, that are saved in another way, or that identify the program that started it.
declare -A __bash_tools_own=(
  [BASH]=1 [BASHOPTS]=1 [BASHPID]=1 [BASH_ALIASES]=1 [BASH_ARGC]=1 [BASH_ARGV]=1 [BASH_ARGV0]=1 [BASH_CMDS]=1
  [BASH_COMMAND]=1 [BASH_EXECUTION_STRING]=1 [BASH_LINENO]=1 [BASH_MONOSECONDS]=1 [BASH_REMATCH]=1 [BASH_SOURCE]=1
  [BASH_SUBSHELL]=1 [BASH_TOOLS_COMMAND]=1 [BASH_TRAPSIG]=1 [BASH_VERSINFO]=1 [BASH_VERSION]=1 [COMP_WORDBREAKS]=1
  [DIRSTACK]=1 [EPOCHREALTIME]=1 [EPOCHSECONDS]=1 [EUID]=1 [FUNCNAME]=1 [GROUPS]=1 [HISTCMD]=1 [HOSTNAME]=1 [HOSTTYPE]=1
  [LINENO]=1 [MACHTYPE]=1 [OSTYPE]=1 [PIPESTATUS]=1 [POSIXLY_CORRECT]=1 [PPID]=1 [PWD]=1 [RANDOM]=1 [SANDBOX_COMMAND_ID]=1
  [SECONDS]=1 [SHELLOPTS]=1 [SHLVL]=1 [SRANDOM]=1 [UID]=1 [_]=1
)

# The shell's own listings go through a file, because capturing them would take a process each time. The file only grows,
# because some file systems write truncated files to the disk at once.
__bash_tools_read() {
  builtin mapfile -t -s "$__bash_tools_seen" __bash_tools_lines <"$__bash_tools_said"
  __bash_tools_seen=$((__bash_tools_seen + ${#__bash_tools_lines[@]}))
  __bash_tools_names=("${__bash_tools_lines[@]#declare -* }")
  __bash_tools_names=("${__bash_tools_names[@]%%=*}")
}

# Calls a function for each name to save. Some are not names: they come from lines inside a multi-line value.
__bash_tools_each() {
  for __bash_tools_name in "${__bash_tools_names[@]}"; do
    case $__bash_tools_name in __bash_tools* | *[!A-Za-z0-9_]* | '') continue ;; esac
    [[ -n ${__bash_tools_own[$__bash_tools_name]} ]] || "$@" "$__bash_tools_name"
  done
}

__bash_tools_part() {
  builtin printf '\0'
  __bash_tools_parts=$((__bash_tools_parts + 1))
}

# If the shell ends inside functions, their local variables hide others. Unsets them until nothing is hidden.
__bash_tools_variable() {
  builtin declare -p -- "$1" || return 0
  for __bash_tools_line in "${FUNCNAME[@]:4}"; do
    [[ ! -R $1 ]] && builtin unset -v "$1" && builtin declare -p -- "$1" >/dev/null || break
    builtin printf 'builtin unset -v %s\n' "$1"
    builtin declare -p -- "$1"
  done
  __bash_tools_part
}

# `declare -F` prints `declare -f`, attributes, and a name. A name with an equals sign is lost, because bash cannot print it
# separately.
__bash_tools_function() {
  __bash_tools_name=${1#declare -* }
  case $__bash_tools_name in __bash_tools* | *=*) return 0 ;; esac
  builtin declare -f -- "$__bash_tools_name" && __bash_tools_part
  case $1 in 'declare -f '*) return 0 ;; esac
  builtin printf 'builtin %s -- %q' "${1%" $__bash_tools_name"}" "$__bash_tools_name"
  __bash_tools_part
}

# A soft limit that has changed since the start of the shell, from a line such as `open files    (-n) 1024`.
__bash_tools_limit() {
  [[ $1 != "$2" ]] || return 0
  __bash_tools_name=${1##*-}
  builtin printf 'builtin ulimit -S -%s %s' "${__bash_tools_name%%)*}" "${1##* }"
  __bash_tools_part
}

# Traps and options take effect on the command's own line. Any earlier, they would apply to the lines here.
__bash_tools_traps() {
  __bash_tools_read
  __bash_tools_text=
  for __bash_tools_line in "${__bash_tools_lines[@]/#trap -- /builtin trap -- }"; do
    case $__bash_tools_line in *__bash_tools_code* | *__bash_tools_end*) ;; *) __bash_tools_text+=$__bash_tools_line$'\n' ;; esac
  done
  [[ $1 == "$__bash_tools_options" ]] ||
    __bash_tools_text+="builtin set +o ${__bash_tools_options//:/ +o } -o ${1//:/ -o }; "
  builtin trap - DEBUG ERR RETURN
}

__bash_tools_place() {
  builtin printf 'builtin cd -- %q || __bash_tools_gone=%q; builtin unset -v OLDPWD' "${DIRSTACK[0]}" "${DIRSTACK[0]}"
  __bash_tools_part
  for ((__bash_tools_at = ${#DIRSTACK[@]} - 1; __bash_tools_at > 0; __bash_tools_at--)); do
    builtin printf 'builtin pushd -n -- %q' "${DIRSTACK[__bash_tools_at]}"
    __bash_tools_part
  done
}

__bash_tools_memory() {
  __bash_tools_parts=0
  builtin printf 'shell 1' && __bash_tools_part
  __bash_tools_place
  builtin printf 'builtin ' && builtin umask -p && __bash_tools_part
  __bash_tools_each __bash_tools_variable
  for __bash_tools_at in "${!__bash_tools_lines[@]}"; do
    case ${__bash_tools_lines[__bash_tools_at]} in
      'declare -f'*) __bash_tools_function "${__bash_tools_lines[__bash_tools_at]}" ;;
      # Variables come last, because a value may look like anything.
      'declare -'*) break ;;
      *'-'?') '*) __bash_tools_limit "${__bash_tools_lines[__bash_tools_at]}" "${__bash_tools_limits[__bash_tools_at]}" ;;
    esac
  done
  builtin printf '__bash_tools_status=%s __bash_tools_before=%q __bash_tools_arguments=(' "$__bash_tools_code" "$__bash_tools_text"
  ((${#__bash_tools_arguments[@]} == 0)) || builtin printf '%q ' "${__bash_tools_arguments[@]}"
  builtin printf ')' && __bash_tools_part
  builtin alias -p && __bash_tools_part
  builtin printf 'builtin shopt -u %s; builtin shopt -s %s' "${__bash_tools_shopts//:/ }" "${1//:/ }" && __bash_tools_part
  builtin printf 'end %s\0' $((__bash_tools_parts + 1))
}

# The listings have been read, so their file is removed before the state itself is written.
__bash_tools_leave() {
  __bash_tools_traps "$1"
  builtin unset -v __bash_tools_lines __bash_tools_command __bash_tools_run
  { builtin printf '1\n'; builtin ulimit -S -a; builtin declare -F; builtin declare -p; } >>"$__bash_tools_said"
  __bash_tools_read
}

# The end of the shell, outside functions, where traps are visible. Only in posix mode, in which it begins, `unset` is
# certainly the builtin. It restores all the others.
__bash_tools_end='unset -f builtin || :
  builtin set +o posix +o allexport +o errexit +o errtrace +o functrace +o noglob +o nounset +o onecmd +o xtrace
  builtin shopt -u extdebug nocasematch xpg_echo
  [[ -z $__bash_tools_to ]] || builtin trap -p >>"$__bash_tools_said"
  __bash_tools_keep "$@"'

# The arguments are those that `set --` of the command left.
__bash_tools_keep() {
  if [[ -n $__bash_tools_to ]]; then
    # A function that ended the shell has its own arguments in their place.
    ((${#FUNCNAME[@]} > 1)) || __bash_tools_arguments=("$@")
    __bash_tools_leave "$__bash_tools_on"
    # Nothing was read if the command has removed the file.
    ((${#__bash_tools_lines[@]} == 0)) || __bash_tools_memory "$__bash_tools_shopts_on" 1<>"$__bash_tools_to"
  fi
  builtin trap - EXIT
  builtin exit "$__bash_tools_code"
}

# The functions above are used from here on.
shopt -s extglob
if [[ -n $__bash_tools_to ]]; then
  { printf '0\n'; ulimit -S -a; export -p; } >>"$__bash_tools_said"
  __bash_tools_read
  __bash_tools_limits=("${__bash_tools_lines[@]}")
fi
if [[ -n $__bash_tools_from ]]; then
  # An unset variable stays unset, although it is in every command's environment.
  __bash_tools_each unset -v
  mapfile -d '' -t __bash_tools_lines <"$__bash_tools_from"
  unset -v '__bash_tools_lines[0]' '__bash_tools_lines[-1]'
  for __bash_tools_line in "${__bash_tools_lines[@]}"; do builtin eval "$__bash_tools_line"; done
else
  shopt -u extglob
fi >/dev/null 2>&1
[[ -z $__bash_tools_gone ]] || builtin printf '[the working directory %s is gone: this is %s]\n' "$__bash_tools_gone" "$PWD" >&2
__bash_tools_run=$__bash_tools_before$__bash_tools_command
[[ -z $__bash_tools_to ]] || builtin printf 1 1<>"$__bash_tools_to"
builtin trap "$__bash_tools_at_end" EXIT
builtin set -- "${__bash_tools_arguments[@]}"
[[ -n $__bash_tools_before || ${__bash_tools_status:-0} == 0 ]] || ( builtin exit "$__bash_tools_status" )

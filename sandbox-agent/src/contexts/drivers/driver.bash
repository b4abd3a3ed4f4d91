# The interpreter of a bash context. Arguments and protocol are those of driver.py.
#
# The code runs in this shell, so its variables, functions and directory stay. An interrupt ends the command that runs, the
# loops around it, and the rest of the code. In a function, bash can only return from it. The control descriptor is closed
# while the code runs.

__sandbox_control=$1
__sandbox_run=
shift $#
# The descriptor of this file.
eval "exec ${0##*/}<&-"

__sandbox_done() {
  local run=$__sandbox_run
  __sandbox_run=
  [[ -z $run ]] || printf '%s done 1\nexitCode %d\n%d' "$run" "${#1}" "$1" >&"$__sandbox_control" || exit
}

while {
  # After an interrupt, the loop continues here.
  __sandbox_done 130
  IFS= read -r -u "$__sandbox_control" __sandbox_next && IFS= read -r -d '' -u "$__sandbox_control" __sandbox_code
}; do
  __sandbox_run=$__sandbox_next
  trap 'if [[ -n ${FUNCNAME-} ]]; then return 130; else continue 1000; fi' INT
  # The inner eval gets its redirection from the outer one, because bash needs a literal number there.
  eval 'eval "$__sandbox_code"' "$__sandbox_control>&-"
  __sandbox_status=$?
  trap '' INT
  __sandbox_done "$__sandbox_status"
done

# One call, from outside: waits for its turn, runs the command in a bash of its own, and keeps what that left behind.
# Nothing of the user's is ever set in this shell. What comes in: $directory, $turn_s, $limit, $session and the array $command.
umask 077
memory=$directory/shell left=$directory/shell.left said=$directory/shell.said
exec 201>&2 2>/dev/null
say() { printf '[%s]\n' "$1" >&201; }

# Whether a file is a memory as keep in session.sh writes it, to its end.
is_whole() {
  local probe parts
  [[ -f $1 && ! -L $1 && -r $1 ]] || return 1
  ! IFS= LC_ALL=C read -r -N $((limit + 1)) probe <"$1" || return 1
  mapfile -d '' -t parts <"$1"
  ((${#parts[@]} > 1)) && [[ ${parts[0]} == 'shell 1' && ${parts[-1]} == "end ${#parts[@]}" ]]
}

# A directory is locked, because a file in it could be removed by the one who waits for it.
take_turn() {
  [[ -d $directory ]] || mkdir -p -- "$directory"
  [[ -d $directory && -r $directory ]] || return 0
  exec 200<"$directory"
  flock -w "$turn_s" -E 75 200
  (($? == 75)) || return 0
  say "another command runs in this shell; this one waited $turn_s s for it and was not run"
  exit 75
}

forget() {
  [[ ! -e $memory && ! -L $memory ]] || rm -rf -- "$memory"
  [[ ! -e $memory && ! -L $memory ]]
}

restart() {
  take_turn
  rm -rf -- "$left" "$said"
  if ! forget; then
    say "$memory could not be removed: this is still the same shell"
    exit 1
  fi
  echo 'tool has been restarted.'
}

# What a call leaves is a digit, 1 once its command was begun, and then a memory in place of it. Beside it is what the shell said
# to itself.
call() {
  local from='' to=$left began=1 code
  take_turn
  if is_whole "$memory"; then
    from=$memory
  elif [[ -e $memory || -L $memory ]]; then
    forget
    say 'what the shell remembered is damaged and forgotten: this is a new shell'
  fi
  [[ ! -e $left && ! -L $left ]] || rm -rf -- "$left"
  [[ -f $said && ! -L $said ]] || rm -rf -- "$said"
  { : >"$said" && printf 0 >"$left"; } || to=
  "$BASH" -c "$main" bash "$session" "$from" "$to" "$at_end" "${command[@]}" 2>&201 201>&- 200<&-
  code=$?
  if [[ -z $to ]]; then
    say "$directory cannot be written to, so nothing of this command is remembered: the shell is as it was before"
  elif is_whole "$left"; then
    mv -fT -- "$left" "$memory" || say "$memory cannot be written: the shell is as it was before"
  else
    IFS= read -r -N 1 began <"$left"
    [[ $began == 0 ]] || began=1
    why_not "$from" "$began"
    # What was not run has not worked.
    ((began != 0 || code != 0)) || code=1
  fi
  exit "$code"
}

why_not() {
  local probe
  if [[ $2 == 0 && -n $1 ]]; then
    forget
    say 'what the shell remembered is damaged and forgotten, and the command was not run: the next one has a new shell'
  elif [[ $2 == 0 ]]; then
    say 'the shell could not be started: the command was not run'
  elif IFS= LC_ALL=C read -r -N $((limit + 1)) probe <"$left"; then
    say "what the shell would have to remember is more than $limit bytes: it is as it was before; keep large values in files"
  else
    say 'the shell ended before it could be remembered (exec, its own trap on EXIT, a signal, a full disk): it is as it was before'
  fi
}

# What every way to the end runs. Assignments alone are nobody's function, and in posix mode `eval` is none either.
at_end='{ __bash_tools_code=$? __bash_tools_on=$SHELLOPTS __bash_tools_shopts_on=$BASHOPTS POSIXLY_CORRECT=1
  \eval "$__bash_tools_end"; } >/dev/null 2>&1'

# The command is on the first line, because bash counts its lines from there.
main="builtin eval \"\$1\"; builtin eval \"\$__bash_tools_run\"; $at_end"

# Runs one call from outside its shell: takes the lock, runs the command in a new bash, and saves the state that it leaves.
# Nothing of the user's is ever set in this shell. Input: $directory, $turn_s, $limit, $session and the array $command.
umask 077
memory=$directory/shell left=$directory/shell.left said=$directory/shell.said
exec 201>&2 2>/dev/null
say() { printf '[%s]\n' "$1" >&201; }

# Whether a file is a complete state, as `keep` in session.sh writes it.
is_whole() {
  local probe parts
  [[ -f $1 && ! -L $1 && -r $1 ]] || return 1
  ! IFS= LC_ALL=C read -r -N $((limit + 1)) probe <"$1" || return 1
  mapfile -d '' -t parts <"$1"
  ((${#parts[@]} > 1)) && [[ ${parts[0]} == 'shell 1' && ${parts[-1]} == "end ${#parts[@]}" ]]
}

# Locks a directory, because a waiting caller could remove a file in it.
take_turn() {
  [[ -d $directory ]] || mkdir -p -- "$directory"
  [[ -d $directory && -r $directory ]] || return 0
  exec 200<"$directory"
  flock -w "$turn_s" -E 75 200
  (($? == 75)) || return 0
  say "another command is running in this shell; this one waited $turn_s s and was not run"
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

# A call leaves a digit, 1 once its command has begun, and then a state in its place. Beside it is what the shell reported
# about itself.
call() {
  local from='' to=$left began=1 code
  take_turn
  if is_whole "$memory"; then
    from=$memory
  elif [[ -e $memory || -L $memory ]]; then
    forget
    say 'the saved state of the shell was damaged and is discarded: this is a new shell'
  fi
  [[ ! -e $left && ! -L $left ]] || rm -rf -- "$left"
  [[ -f $said && ! -L $said ]] || rm -rf -- "$said"
  { : >"$said" && printf 0 >"$left"; } || to=
  "$BASH" -c "$main" bash "$session" "$from" "$to" "$at_end" "${command[@]}" 2>&201 201>&- 200<&-
  code=$?
  if [[ -z $to ]]; then
    say "$directory is not writable: this command does not change the shell's state"
  elif is_whole "$left"; then
    mv -fT -- "$left" "$memory" || say "$memory is not writable: this command did not change the shell's state"
  else
    IFS= read -r -N 1 began <"$left"
    [[ $began == 0 ]] || began=1
    why_not "$from" "$began"
    # A command that was not run has not succeeded.
    ((began != 0 || code != 0)) || code=1
  fi
  exit "$code"
}

why_not() {
  local probe
  if [[ $2 == 0 && -n $1 ]]; then
    forget
    say 'the saved state of the shell was damaged and is discarded, and the command was not run: the next one gets a new shell'
  elif [[ $2 == 0 ]]; then
    say 'the shell could not be started: the command was not run'
  elif IFS= LC_ALL=C read -r -N $((limit + 1)) probe <"$left"; then
    say "the state of the shell is larger than $limit bytes, so this command did not change it; keep large values in files"
  else
    say 'the shell ended before its state could be saved (exec, an EXIT trap, a signal, a full disk): this command did not change its state'
  fi
}

# Run at every kind of end. Only assignments, because a user's function cannot replace them. In posix mode nothing replaces
# `eval` either.
at_end='{ __bash_tools_code=$? __bash_tools_on=$SHELLOPTS __bash_tools_shopts_on=$BASHOPTS POSIXLY_CORRECT=1
  \eval "$__bash_tools_end"; } >/dev/null 2>&1'

# The command is on the first line, because bash counts its lines from there.
main="builtin eval \"\$1\"; builtin eval \"\$__bash_tools_run\"; $at_end"

# shellcheck shell=bash
# The steps of `make up` and `make up-native`. Each has a number, a title and a log, and starts as soon as the steps that it
# needs are done.
#
# Note: a step runs in a subshell, so the variables that it sets are lost when it ends. It has no terminal: commands that ask
# for a password have to run before the steps.

readonly STEP_LOGS=$RUN_DIR/up
# The interval of the progress lines for running steps.
readonly STEP_REPORT_SECONDS=15

# Exported, so that it is kept when the script restarts with the engine's group (lib/engine.sh).
export STEPS_BEGAN_AT=${STEPS_BEGAN_AT:-$(date +%s)}

# Ordered by step number.
step_names=()
declare -A step_titles=() step_needs=() step_commands=() step_states=() step_pids=() step_starts=()

# Prints the minutes and seconds since the script or a step started.
clock() {
  local seconds=$(($(date +%s) - ${1:-$STEPS_BEGAN_AT}))
  printf '%d:%02d' $((seconds / 60)) $((seconds % 60))
}

# Prints a line on the terminal, also from within a step.
tell() {
  printf '[%s] %s\n' "$(clock)" "$*" >&"$terminal"
}

exec {terminal}>&1

# Adds a step: name, title, the names of the steps that it needs, command.
add_step() {
  step_names+=("$1")
  step_titles[$1]=$2 step_needs[$1]=$3 step_commands[$1]=${*:4} step_states[$1]=waiting
}

# "step 3 of 8: sandbox image"
step_label() {
  local name number=1
  for name in "${step_names[@]}"; do
    [[ $name != "$1" ]] || break
    number=$((number + 1))
  done
  echo "step $number of ${#step_names[@]}: ${step_titles[$1]}"
}

# Runs the step of this name in this shell and with this terminal.
run_step_here() {
  local name=$1
  tell "$(step_label "$name")"
  ${step_commands[$name]} "${@:2}"
  step_states[$name]=done
}

# Runs all other steps. The first one that fails ends the script.
run_steps() {
  local name reported=$SECONDS
  rm -rf -- "$STEP_LOGS"
  mkdir -p "$STEP_LOGS"
  # By default, cargo writes no progress to a log.
  export CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100
  trap stop_steps EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  until all_steps_are_done; do
    for name in "${step_names[@]}"; do
      case ${step_states[$name]} in
        waiting) ! needs_are_met "$name" || start_step "$name" ;;
        running) ! step_has_ended "$name" || end_step "$name" ;;
      esac
    done
    if ((SECONDS - reported >= STEP_REPORT_SECONDS)); then
      report_running_steps
      reported=$SECONDS
    fi
    sleep 0.1
  done
  trap - EXIT HUP INT TERM
}

all_steps_are_done() {
  local name
  for name in "${step_names[@]}"; do
    [[ ${step_states[$name]} == done ]] || return 1
  done
}

needs_are_met() {
  local need
  for need in ${step_needs[$1]}; do
    [[ ${step_states[$need]} == done ]] || return 1
  done
}

start_step() {
  local name=$1
  tell "$(step_label "$name")"
  step_states[$name]=running step_starts[$name]=$(date +%s)
  # The step gets its own process group, so that it can be stopped with all its processes.
  set -m
  {
    # Not in a condition, because there bash would ignore `set -e` and not end the step at its first failing line.
    set +e
    (
      set -e
      # shellcheck disable=SC2086 # a command and its arguments
      ${step_commands[$name]}
    )
    echo $? >"$STEP_LOGS/$name.status"
  } </dev/null >"$STEP_LOGS/$name.log" 2>&1 &
  set +m
  step_pids[$name]=$!
}

# Also true for a step that was killed and has no status.
step_has_ended() {
  [[ -s $STEP_LOGS/$1.status ]] || ! kill -0 "${step_pids[$1]}" 2>/dev/null
}

end_step() {
  local name=$1 status
  status=$(cat "$STEP_LOGS/$name.status" 2>/dev/null) || status=137
  wait "${step_pids[$name]}" 2>/dev/null || true
  tell_notes "$name"
  step_states[$name]=done
  if [[ $status == 0 ]]; then
    tell "$(step_label "$name"): done in $(clock "${step_starts[$name]}")"
    return
  fi
  step_states[$name]=failed
  give_up "$(step_label "$name") failed after $(clock "${step_starts[$name]}"). The end of its log, $PWD/$STEP_LOGS/$name.log:

$(tr '\r' '\n' <"$STEP_LOGS/$name.log" | grep -v '^ *Building \[' | tail -n 20)"
}

# Shows the notes in the step's log on the terminal, because a user does not read the log of a successful step.
tell_notes() {
  local line
  while IFS= read -r line; do
    tell "$line"
  done < <(grep -a '^note: ' "$STEP_LOGS/$1.log" || true)
}

report_running_steps() {
  local name line='' progress
  for name in "${step_names[@]}"; do
    [[ ${step_states[$name]} == running ]] || continue
    progress=$(step_progress "$name") || progress="$(clock "${step_starts[$name]}") so far"
    line+="${line:+, }${step_titles[$name]} ($progress)"
  done
  [[ -z $line ]] || tell "  $line"
}

# Prints "212 of 481", from the last progress line of cargo or docker in the log.
step_progress() {
  local found
  found=$(tr '\r' '\n' <"$STEP_LOGS/$1.log" \
    | grep -aoE '(Building \[[=> ]*\] *|^Step |^#[0-9]+ \[[a-z ]*)[0-9]+/[0-9]+' | tail -n 1)
  [[ -n $found ]] || return 1
  found=${found##*[^0-9/]}
  echo "${found/\// of }"
}

# Stops the running steps. Called at every exit of the script while steps run.
stop_steps() {
  local status=$? name
  # A second Ctrl-C must not leave a step behind.
  trap '' HUP INT TERM
  for name in "${step_names[@]}"; do
    [[ ${step_states[$name]} != running ]] || kill -TERM -- "-${step_pids[$name]}" 2>/dev/null || true
  done
  for name in "${step_names[@]}"; do
    [[ ${step_states[$name]} != running ]] || wait "${step_pids[$name]}" 2>/dev/null || true
  done
  exit "$status"
}

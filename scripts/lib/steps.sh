# shellcheck shell=bash
# The steps of `make up`: each has a number, a title and a log, and begins as soon as the steps that it needs are done.
#
# What may surprise: a step runs in a subshell, so the variables that it sets are lost when it ends. It has no terminal
# either: whatever asks for a password belongs in front of the steps.

readonly STEP_LOGS=$RUN_DIR/up
# How often the steps that run report how far they are.
readonly STEP_REPORT_SECONDS=15

# Kept when the script starts over with the engine's group (lib/engine.sh).
export STEPS_BEGAN_AT=${STEPS_BEGAN_AT:-$(date +%s)}

# In the order of their numbers.
step_names=()
declare -A step_titles=() step_needs=() step_commands=() step_states=() step_pids=() step_starts=()

# Minutes and seconds since the script began.
clock() {
  local seconds=$(($(date +%s) - ${1:-$STEPS_BEGAN_AT}))
  printf '%d:%02d' $((seconds / 60)) $((seconds % 60))
}

# A line for the person at the terminal, also from within a step.
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

# Runs a step of this name in this shell and with this terminal.
run_step_here() {
  local name=$1
  tell "$(step_label "$name")"
  ${step_commands[$name]} "${@:2}"
  step_states[$name]=done
}

# Runs all other steps to their end. The first one that fails ends the script.
run_steps() {
  local name reported=$SECONDS
  rm -rf -- "$STEP_LOGS"
  mkdir -p "$STEP_LOGS"
  # In its log, cargo says how far it is only when it is told to.
  export CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100
  trap stop_steps EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  until all_steps_are_done; do
    for name in "${step_names[@]}"; do
      case ${step_states[$name]} in
        waiting) ! needs_are_met "$name" || begin_step "$name" ;;
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

begin_step() {
  local name=$1
  tell "$(step_label "$name")"
  step_states[$name]=running step_starts[$name]=$(date +%s)
  # A process group of its own, so that the step can be stopped with all it has started.
  set -m
  {
    # In a condition, bash would not end the step at its first failing line.
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

# Also if it was killed, and has no status.
step_has_ended() {
  [[ -s $STEP_LOGS/$1.status ]] || ! kill -0 "${step_pids[$1]}" 2>/dev/null
}

end_step() {
  local name=$1 status
  status=$(cat "$STEP_LOGS/$name.status" 2>/dev/null) || status=137
  wait "${step_pids[$name]}" 2>/dev/null || true
  step_states[$name]=done
  if [[ $status == 0 ]]; then
    tell "$(step_label "$name"): done in $(clock "${step_starts[$name]}")"
    return
  fi
  step_states[$name]=failed
  give_up "$(step_label "$name") failed after $(clock "${step_starts[$name]}"). The end of its log, $PWD/$STEP_LOGS/$name.log:

$(tr '\r' '\n' <"$STEP_LOGS/$name.log" | grep -v '^ *Building \[' | tail -n 20)"
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

# "212 of 481", by the last line of the log in which cargo or docker says so.
step_progress() {
  local found
  found=$(tr '\r' '\n' <"$STEP_LOGS/$1.log" \
    | grep -aoE '(Building \[[=> ]*\] *|^Step |^#[0-9]+ \[[a-z ]*)[0-9]+/[0-9]+' | tail -n 1)
  [[ -n $found ]] || return 1
  found=${found##*[^0-9/]}
  echo "${found/\// of }"
}

# Called however the script ends.
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

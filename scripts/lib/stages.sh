# shellcheck shell=bash
# The stages of a test run: the duration and the counts of each, and the totals.
#
# Note: a stage that reports no counts is one check, so that the totals show every failure. The next stage runs even if one
# fails.

stage_lines=()
passed_sum=0
failed_sum=0
stage_counts=

# Runs a command as the stage of this name. The command may report its counts with `count`.
stage() {
  local name=$1 begin=$SECONDS status counts
  shift
  printf '\n--- %s\n' "$name"
  stage_counts=$RUN_DIR/stage-counts
  rm -f -- "$stage_counts"
  # Not in a condition, because there bash would ignore `set -e` and not end the stage at its first failing line.
  set +e
  (
    set -e
    "$@"
  )
  status=$?
  set -e
  counts=$(cat "$stage_counts" 2>/dev/null) || counts=
  record_stage "$name" $((SECONDS - begin)) "$status" "${counts:-0 0}"
}

# Reports the counts of a stage: passed, failed.
count() {
  echo "$1 $2" >"$stage_counts"
}

# Reports the counts from a report of nextest.
count_junit() {
  local suites pattern=' tests="([0-9]+)".* failures="([0-9]+)".* errors="([0-9]+)"'
  suites=$(grep -m 1 '<testsuites ' "$1")
  [[ $suites =~ $pattern ]]
  local failed=$((BASH_REMATCH[2] + BASH_REMATCH[3]))
  count $((BASH_REMATCH[1] - failed)) "$failed"
}

record_stage() {
  local name=$1 seconds=$2 status=$3 passed failed
  read -r passed failed <<<"$4"
  if ((status != 0 && failed == 0)); then
    failed=1
  elif ((status == 0 && passed + failed == 0)); then
    passed=1
  fi
  passed_sum=$((passed_sum + passed)) failed_sum=$((failed_sum + failed))
  stage_lines+=("$(printf '%-14s %5d s   %d passed, %d failed' "$name" "$seconds" "$passed" "$failed")")
}

any_stage_failed() {
  ((failed_sum > 0))
}

# Prints the end of a run's output. Programs read its last line too.
report_stages() {
  printf '\n--- summary\n'
  printf '%s\n' "${stage_lines[@]}"
  printf '%d passed, %d failed\n' "$passed_sum" "$failed_sum"
}

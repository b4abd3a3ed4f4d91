# shellcheck shell=bash
# The stages of a test run: the duration and the counts of each, and the totals.
#
# Note: a stage that reports no counts is one check, so that the totals show every failure. The next stage runs even if one
# fails. The end of a run's output must be enough to understand a failure, because some readers see no more of it.

# What the summary repeats of a failed stage that does not report which of its tests failed: lines, and characters of each.
readonly STAGE_END_LINES=20
readonly STAGE_END_WIDTH=300

stage_lines=()
failed_tests=
passed_sum=0
failed_sum=0
stage_counts=
stage_failed_tests=
stage_output=
# Process and begin of each stage that runs beside the others, by its name.
declare -A stages_beside=()

# Runs a command as the stage of this name. The command may report its counts with `count`.
stage() {
  local name=$1 begin=$SECONDS status counts
  shift
  # The time of the start, because a run that is ended from outside prints no summary.
  printf '\n--- %s (at %d s)\n' "$name" "$begin"
  stage_counts=$RUN_DIR/stage-counts
  stage_failed_tests=$RUN_DIR/stage-failed-tests
  stage_output=$RUN_DIR/stage-output
  rm -f -- "$stage_counts" "$stage_failed_tests"
  # Not in a condition, because there bash would ignore `set -e` and not end the stage at its first failing line.
  set +e
  (
    set -e
    "$@"
  ) 2>&1 | tee "$stage_output"
  status=${PIPESTATUS[0]}
  set -e
  counts=$(cat "$stage_counts" 2>/dev/null) || counts=
  if ((status != 0)); then failed_tests+=$(stage_failure "$name")$'\n'; fi
  record_stage "$name" $((SECONDS - begin)) "$status" "${counts:-0 0}"
}

# Begins a stage beside the next ones. `join_stage` waits for it. It cannot report counts.
begin_stage() {
  local name=$1
  shift
  # In a process group of its own, so that `end_stages_beside` reaches all of its processes.
  set -m
  (
    set -e
    "$@"
  ) >"$RUN_DIR/beside-$name" 2>&1 &
  set +m
  stages_beside[$name]="$! $SECONDS"
}

# Waits for a stage that runs beside the others, prints its output, and reports it.
join_stage() {
  local name=$1 pid begin status=0
  read -r pid begin <<<"${stages_beside[$name]}"
  wait "$pid" || status=$?
  unset "stages_beside[$name]"
  printf '\n--- %s (at %d s, beside the stages before)\n' "$name" "$begin"
  stage_failed_tests=/dev/null
  stage_output=$RUN_DIR/beside-$name
  cat -- "$stage_output"
  if ((status != 0)); then failed_tests+=$(stage_failure "$name")$'\n'; fi
  record_stage "$name" $((SECONDS - begin)) "$status" '0 0'
}

end_stages_beside() {
  local stage
  for stage in "${stages_beside[@]}"; do kill -- "-${stage% *}" 2>/dev/null || true; done
}

# Prints what failed in a stage: the tests that it reported, or the end of its output.
stage_failure() {
  if [[ -s $stage_failed_tests ]]; then
    cat "$stage_failed_tests"
    return
  fi
  printf 'failed: %s\n' "$1"
  sed $'s/\e\\[[0-9;]*m//g; s/.*\r//' "$stage_output" | grep -v '^[[:space:]]*$' | tail -n "$STAGE_END_LINES" \
    | cut -c "1-$STAGE_END_WIDTH" | sed 's/^/  /'
}

# Reports the counts of a stage: passed, failed.
count() {
  echo "$1 $2" >"$stage_counts"
}

# Reports the counts from a report of nextest, and the tests that failed with the first lines of their messages.
count_junit() {
  local suites pattern=' tests="([0-9]+)".* failures="([0-9]+)".* errors="([0-9]+)"'
  suites=$(grep -m 1 '<testsuites ' "$1")
  [[ $suites =~ $pattern ]]
  awk -F'"' '
    /<testcase / { test = $4 " " $2 }
    /<(failure|error) / { print "failed: " test; sub(/.*>/, ""); lines = 7 }
    /stack backtrace:|<\/(failure|error)>/ { lines = 0 }
    lines > 0 { print "  " substr($0, 1, 300); lines-- }
  ' "$1" | unescape_xml >"$stage_failed_tests"
  local failed=$((BASH_REMATCH[2] + BASH_REMATCH[3]))
  count $((BASH_REMATCH[1] - failed)) "$failed"
}

unescape_xml() {
  sed "s/&apos;/'/g; s/&quot;/\"/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g"
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
  printf '%s' "$failed_tests"
  printf '%d passed, %d failed\n' "$passed_sum" "$failed_sum"
}

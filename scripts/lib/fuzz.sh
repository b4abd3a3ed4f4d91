# shellcheck shell=bash
# Fuzzes the API of a separate daemon with schemathesis, from the daemon's OpenAPI document, and removes both afterwards.
#
# Note: only one request runs at a time, because two would delete each other's sandboxes. Each request comes from a different
# address of 127.0.0.0/8, because the daemon throttles an address that sends many wrong tokens.
#
# Needs lib/daemon.sh for the settings, lib/leaks.sh, lib/packages.sh, lib/python.sh, lib/rust.sh and lib/stages.sh.

readonly FUZZ_LOG=$RUN_DIR/fuzz.log

fuzz_home=
fuzz_pid=

# Fuzzes for this number of seconds. As a stage of a test run, it reports its own counts.
run_fuzz() (
  ensure_fuzzer
  test_conditions
  trap clean_after_fuzz EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  start_fuzzed_daemon
  fuzz "$1"
)

# Creates the virtual environment, or recreates it if other versions are needed.
ensure_fuzzer() {
  fuzz_venv=$(target_dir)/fuzz-venv
  ensure_venv "$fuzz_venv" scripts/fuzz/requirements.txt \
    || give_up "schemathesis could not be installed from PyPI; the lines above say why."
}

# Tests which errors are legal, without a daemon.
test_conditions() {
  "$fuzz_venv/bin/python" -B -m unittest discover --quiet --start-directory scripts/fuzz
}

# Starts a daemon that shares nothing with another one, whatever the settings in .env are.
start_fuzzed_daemon() {
  fuzz_home=$(mktemp --directory /tmp/sandboxd-fuzz.XXXXXX)
  SANDBOXD_ADMIN_TOKEN=$(od -An -N 24 -tx1 /dev/urandom | tr -d ' \n')
  SANDBOXD_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  export SANDBOXD_PREVIEW_BIND=127.0.0.1:0
  export SANDBOXD_ADMIN_TOKEN SANDBOXD_PORT SANDBOXD_BIND_HOST=127.0.0.1 SANDBOXD_URL=http://127.0.0.1:$SANDBOXD_PORT
  export SANDBOXD_STATE_DIR=$fuzz_home/state SANDBOXD_RUN_DIR=$fuzz_home/run SANDBOXD_ADOPT_ORIGINAL=false
  export SANDBOXD_LOG=info SANDBOXD_LOG_FORMAT=text
  # Otherwise, the daemon would ask servers on the internet for random names.
  export SANDBOXD_REPOSITORIES_MB=0 SANDBOXD_PACKAGES_MB=0
  (
    umask 022
    exec setsid "$sandboxd" serve
  ) </dev/null >"$FUZZ_LOG" 2>&1 &
  fuzz_pid=$!
  succeeds_within "$READY_SECONDS" fuzzed_daemon_is_ready_or_gone
  fuzzed_daemon_is_ready || give_up "the daemon for the fuzzer does not serve. Its log, $FUZZ_LOG:
$(tail -n 20 "$FUZZ_LOG")"
}

fuzzed_daemon_is_ready_or_gone() {
  fuzzed_daemon_is_ready || ! kill -0 "$fuzz_pid" 2>/dev/null
}

fuzzed_daemon_is_ready() {
  curl --silent --fail --noproxy '*' --max-time 5 --output /dev/null "$SANDBOXD_URL/v1/ready"
}

fuzz() {
  local scripts=$PWD/scripts/fuzz report=$PWD/$RUN_DIR/fuzz.xml status=0
  "$fuzz_venv/bin/python" "$scripts/check-document"
  rm -f -- "$report"
  # schemathesis stores examples in its working directory, which is removed with the daemon.
  (
    cd "$fuzz_home"
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$scripts SCHEMATHESIS_HOOKS=hooks \
      "$fuzz_venv/bin/st" --config-file "$scripts/schemathesis.toml" run "$SANDBOXD_URL/openapi.json" \
      --header "x-remcochat-admin-token: $SANDBOXD_ADMIN_TOKEN" --wait-for-schema 10 --max-time "$1" \
      ${FUZZ_SEED:+--seed "$FUZZ_SEED"} --report junit --report-junit-path "$report"
  ) || status=$?
  count_fuzz "$report"
  if grep -F panicked "$FUZZ_LOG"; then
    say "the daemon panicked; the whole log is $FUZZ_LOG"
    status=1
  fi
  return "$status"
}

# Reports one check for each operation, and one for the sequences of operations, and which of them failed.
count_fuzz() {
  local tests failures errors
  tests=$(junit_sum tests "$1") failures=$(junit_sum failures "$1") errors=$(junit_sum errors "$1")
  "$fuzz_venv/bin/python" scripts/fuzz/list-failures "$1" >"$stage_failed_tests"
  count $((tests - failures - errors)) $((failures + errors))
}

junit_sum() {
  grep -m 1 '<testsuites ' "$2" | sed -n "s/.* $1=\"\([0-9]*\)\".*/\1/p"
}

# Stops the daemon first, because it would recreate objects. Then removes all objects of its instance.
clean_after_fuzz() {
  local instance
  trap '' HUP INT TERM
  if [[ -n $fuzz_pid ]] && kill -TERM "$fuzz_pid" 2>/dev/null; then
    succeeds_within "$STOP_SECONDS" fuzzed_daemon_is_gone || kill -KILL "$fuzz_pid" || true
  fi
  for instance in "$fuzz_home"/run/*/; do
    instance=$(basename "$instance")
    if [[ $instance != '*' ]]; then succeeds_within "$STOP_SECONDS" remove_instance "$instance" || true; fi
  done
  if [[ -n $fuzz_home ]]; then rm -rf -- "$fuzz_home"; fi
}

fuzzed_daemon_is_gone() {
  ! kill -0 "$fuzz_pid" 2>/dev/null
}

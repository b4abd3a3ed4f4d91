# shellcheck shell=bash
# Stories that run a second time, with workspaces over a base.
#
# Needs lib/checkout.sh, lib/engine.sh, lib/rust.sh and lib/stages.sh.

# Stories about the files of a workspace: read and changed, searched, watched, limited by the quota, and left by a kill.
readonly BASE_STORIES='(test(/^files::(archive|basics|content|edit|links|paths|search|tree|watch)::/)
  + (test(/^limits::disk::/) - test(no_file_is_larger)) + test(/^commands::read_only::/)
  + test(/^commands::kill::/)) - test(through_the_engine)'

# The names of plugins that tests leave to this script.
readonly TEST_PLUGINS=$RUN_DIR/test-plugins

kernel_mounts_images() {
  local major minor
  IFS=. read -r major minor _ < <(uname -r)
  ((major > 6 || (major == 6 && minor >= 12)))
}

# Runs a command and removes the plugins of its tests afterwards. After each removal the engine waits for the plugin whenever it
# lists its volumes, up to 30 seconds, and other tests would wait with it.
keeping_plugins() {
  local status=0
  SANDBOXD_TEST_PLUGINS=$PWD/$TEST_PLUGINS "$@" || status=$?
  remove_test_plugins
  return "$status"
}

remove_test_plugins() {
  [[ ! -s $TEST_PLUGINS ]] || xargs docker plugin rm --force <"$TEST_PLUGINS" >/dev/null
  rm -f -- "$TEST_PLUGINS"
}

# A stage of a test run. It reports its own counts.
run_base_stories() {
  local report=target/nextest/bases/junit.xml status=0
  if ! kernel_mounts_images; then
    local note
    note="the kernel $(uname -r) is older than 6.12, so no workspace can be over a base"
    [[ -z ${CI-} ]] || give_up "$note. Nothing may be skipped if CI is set."
    warn "$note"
    return
  fi
  rm -f -- "$report"
  # For the whole workspace, because `make test` has built them that way.
  SANDBOXD_TEST_BASE=1 keeping_plugins run_nextest --test stories --profile bases \
    --filterset "package(sandboxd) & ($BASE_STORIES)" || status=$?
  if ((status == 0)) || [[ -e $report ]]; then count_junit "$report"; fi
  return "$status"
}

# shellcheck shell=bash
# gVisor: its installation, its arguments, and its registration with the engine.
#
# Note: a current `ls` fails under the version in Debian 12, so the version from the backports is installed. A signal makes
# the engine read its configuration again; the engine is never restarted for it, because others may be using it. A version
# from before 2023 gets different arguments: it has no fast platform, and its process count does not fit the engine's limits.

readonly GVISOR_NAME=runsc
readonly ENGINE_CONFIG=/etc/docker/daemon.json
readonly ENGINE_PID=/var/run/docker.pid
readonly RELOAD_SECONDS=15

gvisor_is_installed() {
  has runsc
}

# Installs gVisor if it is missing, or if it is too old and this user can install packages. Fails if there is still none.
ensure_gvisor() {
  if gvisor_is_installed && gvisor_is_current; then return; fi
  install_gvisor || gvisor_is_installed
}

install_gvisor() {
  local release=
  # shellcheck disable=SC1091 # the machine's
  if [[ -r /etc/os-release ]]; then release=$(. /etc/os-release && echo "$ID $VERSION_CODENAME"); fi
  if [[ $release == 'debian bookworm' ]]; then
    install_from_backports runsc
  else
    install_packages runsc
  fi
}

# Versions with the systrap platform can also run a current `ls`. Older ones reject a flag that it passes to statx(2).
gvisor_is_current() {
  [[ $(runsc flags 2>&1) == *systrap* ]]
}

# `host-uds` lets the agent connect to the one mounted socket. A sandbox has no network.
gvisor_arguments() {
  local common='"--network=none", "--host-uds=open"'
  if gvisor_is_current; then
    echo "[\"--platform=systrap\", $common]"
  else
    echo "[\"--platform=ptrace\", $common, \"--ignore-cgroups\"]"
  fi
}

gvisor_is_registered() {
  [[ $(engine_get info) == *"\"$GVISOR_NAME\":{"* ]]
}

# The entry for the engine's configuration, in the form in which a user can add it.
gvisor_entry() {
  printf '{ "runtimes": { "%s": { "path": "%s", "runtimeArgs": %s } } }' \
    "$GVISOR_NAME" "$(command -v runsc)" "$(gvisor_arguments)"
}

# Registers gVisor with the engine and keeps the engine's other settings. An existing registration keeps its arguments.
ensure_gvisor_registered() {
  local advice
  if gvisor_is_registered; then return; fi
  advice="Add to $ENGINE_CONFIG on the engine's machine:
  $(gvisor_entry)
and then run as root: kill -HUP \$(cat $ENGINE_PID)      (or: systemctl reload docker)"
  [[ $engine_socket == "$SYSTEM_SOCKET" || $engine_socket == /run/docker.sock ]] && engine_runs && can_be_root \
    || give_up "gVisor is not registered with the engine at $(engine_address), and this user cannot register it. $advice"
  has jq || has python3 || install_packages jq || give_up "editing the engine's configuration needs jq or python3. $advice"
  say "registering $GVISOR_NAME with the engine, in $ENGINE_CONFIG"
  write_engine_config || give_up "$ENGINE_CONFIG could not be changed. $advice"
  reload_engine
  succeeds_within "$RELOAD_SECONDS" gvisor_is_registered || {
    restore_engine_config
    give_up "the engine did not register the runtime; see its log. $ENGINE_CONFIG is restored.
If dockerd was started with --add-runtime, add the runtime there instead. $advice"
  }
  as_root rm -f -- "$ENGINE_CONFIG.before-gvisor"
}

# Replaces the configuration with a complete new file. The old one is kept next to it until the engine has loaded the new one.
write_engine_config() {
  local old='{}' merged
  as_root mkdir -p "${ENGINE_CONFIG%/*}"
  if [[ -s $ENGINE_CONFIG ]]; then
    old=$(as_root cat "$ENGINE_CONFIG")
    as_root cp --preserve -- "$ENGINE_CONFIG" "$ENGINE_CONFIG.before-gvisor"
  else
    as_root rm -f -- "$ENGINE_CONFIG.before-gvisor"
  fi
  merged=$(merged_settings "$old" "$(gvisor_entry)") && [[ -n $merged ]] || return 1
  as_root tee "$ENGINE_CONFIG.new" >/dev/null <<<"$merged"
  as_root mv -- "$ENGINE_CONFIG.new" "$ENGINE_CONFIG"
}

# Merges two JSON objects: the `runtimes` of both, and everything else of the first.
merged_settings() {
  if has jq; then
    jq --argjson entry "$2" '.runtimes += $entry.runtimes' <<<"$1"
  else
    python3 -c '
import json, sys
settings, entry = (json.loads(text) for text in sys.argv[1:])
settings.setdefault("runtimes", {}).update(entry["runtimes"])
print(json.dumps(settings, indent=2))' "$1" "$2"
  fi
}

restore_engine_config() {
  if [[ -e $ENGINE_CONFIG.before-gvisor ]]; then
    as_root mv -- "$ENGINE_CONFIG.before-gvisor" "$ENGINE_CONFIG"
  else
    as_root rm -f -- "$ENGINE_CONFIG"
  fi
  reload_engine
}

reload_engine() {
  as_root kill -HUP "$(<"$ENGINE_PID")"
}

gvisor_advice() {
  echo "Run as root: apt-get install runsc      (in Debian 12, from its backports:
  echo 'deb http://deb.debian.org/debian bookworm-backports main' >/etc/apt/sources.list.d/backports.list
  apt-get update && apt-get install -t bookworm-backports runsc)"
}

# All stories that start a daemon with a sandbox, except those that do not depend on the runtime: settings, command line,
# database, hosts and bodies of requests, and how requests about files are checked. Under Debian 12's own version `ls` fails,
# which most stories use. The stories that remain there cover commands, their output and exit, and a killed daemon. Two stories
# that take over a minute under gVisor are about what the host does in any case: its share of the processor, and its limits
# for the members of an archive.
gvisor_stories() {
  local everywhere='test(over_the_socket) + test(/^commands::output::/) + test(/^daemon::process::/)
    + test(/^lifecycle::sandboxes::/)'
  if gvisor_is_current; then
    echo "($everywhere + test(/^gvisor::/) + test(/^security::hardening::/) + test(/^files::/)
      + test(/^lifecycle::(pressure|parking)::/) + test(/unknown_oci_runtime/)
      + test(/^commands::(stdin|batch|follow)::/) + test(/^compat::/) + test(/^limits::(cpu|options)::/)
      + (test(/^limits::disk::/) - test(no_file_is_larger))) - test(through_the_engine)
      - test(/^limits::cpu::a_neighbour/) - test(too_many_members_or_levels)
      - test(/^files::(conditions|edit|refusals)::/)"
  else
    echo "($everywhere + test(/unknown_oci_runtime/)) - test(through_the_engine) - test(/^files::/)"
  fi
}

# A stage of a test run. It reports its own counts.
run_gvisor_stories() {
  local report=target/nextest/gvisor/junit.xml status=0
  ensure_gvisor_registered
  if ! gvisor_is_current; then
    local note
    note="$(runsc --version | head -n 1) is too old for some programs of the image, such as ls; only some of the stories run.
$(gvisor_advice)"
    [[ -z ${CI-} ]] || give_up "$note. Nothing may be skipped if CI is set."
    warn "$note"
  fi
  rm -f -- "$report"
  # For the whole workspace, because `make test` has built them that way.
  SANDBOXD_TEST_RUNTIME=$GVISOR_NAME run_nextest --test stories --profile gvisor \
    --filterset "package(sandboxd) & ($(gvisor_stories))" || status=$?
  if ((status == 0)) || [[ -e $report ]]; then count_junit "$report"; fi
  return "$status"
}

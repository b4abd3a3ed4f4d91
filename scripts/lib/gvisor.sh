# shellcheck shell=bash
# gVisor: installing it, what it is started with, and registering it with the engine.
#
# What may surprise: Debian 12 has a version under which a current `ls` fails, so that of its backports is installed; the
# engine learns of a runtime by a signal and is never started again for it, because others may be using it; and a version
# from before 2023 gets other arguments, because it has neither the fast platform nor a count of processes that fits the
# engine's limits.

readonly GVISOR_NAME=runsc
readonly ENGINE_CONFIG=/etc/docker/daemon.json
readonly ENGINE_PID=/var/run/docker.pid
readonly RELOAD_SECONDS=15

gvisor_is_installed() {
  has runsc
}

# Installs it if it is missing, or too old and this user may install another one. Fails where there is none afterwards.
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

# The first versions with the systrap platform are also the first under which a current `ls` works: older ones refuse a
# flag it gives to statx(2).
gvisor_is_current() {
  [[ $(runsc flags 2>&1) == *systrap* ]]
}

# `host-uds` lets the agent dial the one socket that is mounted; of networks a sandbox has none.
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

# What the engine's settings must hold, as a person would add it.
gvisor_entry() {
  printf '{ "runtimes": { "%s": { "path": "%s", "runtimeArgs": %s } } }' \
    "$GVISOR_NAME" "$(command -v runsc)" "$(gvisor_arguments)"
}

# Makes the engine know it, keeping whatever else its settings hold. Whoever registered it before decides its arguments.
ensure_gvisor_registered() {
  local advice
  if gvisor_is_registered; then return; fi
  advice="Add to $ENGINE_CONFIG of the engine's machine:
  $(gvisor_entry)
and then, as root: kill -HUP \$(cat $ENGINE_PID)      (or: systemctl reload docker)"
  [[ $engine_socket == "$SYSTEM_SOCKET" || $engine_socket == /run/docker.sock ]] && engine_runs && can_be_root \
    || give_up "the engine at $(engine_address) does not know gVisor, and this user cannot tell it. $advice"
  has jq || has python3 || install_packages jq || give_up "neither jq nor python3 is there to edit a settings file. $advice"
  say "registering $GVISOR_NAME with the engine, in $ENGINE_CONFIG"
  write_engine_config || give_up "$ENGINE_CONFIG could not be changed. $advice"
  reload_engine
  holds_within "$RELOAD_SECONDS" gvisor_is_registered || {
    restore_engine_config
    give_up "the engine did not take the runtime over, so $ENGINE_CONFIG is as it was. Its log says why.
Where dockerd was started with --add-runtime, add it there instead. $advice"
  }
  as_root rm -f -- "$ENGINE_CONFIG.before-gvisor"
}

# In place of the old file only when it is whole, which stays beside it until the engine has taken the new one.
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

# Two JSON objects as one: `runtimes` of both, and all the rest of the first.
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
  echo "Type, as root: apt-get install runsc      (in Debian 12, from its backports:
  echo 'deb http://deb.debian.org/debian bookworm-backports main' >/etc/apt/sources.list.d/backports.list
  apt-get update && apt-get install -t bookworm-backports runsc)"
}

# All stories that begin a daemon with a sandbox, but those about what no runtime can change: the settings, the command
# line, the database, hosts and bodies of requests. Under the version of Debian 12 itself `ls` fails, which most stories
# use, so what is left there is commands, their output and their end, and a daemon that is killed.
gvisor_stories() {
  local everywhere='test(over_the_socket) + test(/^commands::output::/) + test(/^daemon::process::/)
    + test(/^lifecycle::sandboxes::/)'
  if gvisor_is_current; then
    echo "($everywhere + test(/^gvisor::/) + test(/^security::hardening::/) + test(/^files::/)
      + test(/^api::bounds::/) + test(/^lifecycle::(pressure|parking)::/) + test(/unknown_oci_runtime/)
      + test(/^commands::(stdin|batch|follow)::/) + test(/^compat::/) + test(/^limits::(cpu|options)::/)
      + (test(/^limits::disk::/) - test(no_file_is_larger))) - test(through_the_engine)"
  else
    echo "($everywhere + test(/unknown_oci_runtime/)) - test(through_the_engine) - test(/^files::/)"
  fi
}

# The stage of a test run. It counts for itself.
run_gvisor_stories() {
  local report=target/nextest/gvisor/junit.xml status=0
  ensure_gvisor_registered
  if ! gvisor_is_current; then
    warn "$(runsc --version | head -n 1) is too old for programs of the image, such as ls; only a part of the stories runs.
$(gvisor_advice)"
  fi
  rm -f -- "$report"
  # Of the whole workspace, because that is how `make test` has built them.
  SANDBOXD_TEST_RUNTIME=$GVISOR_NAME cargo nextest run --workspace --test stories --profile gvisor \
    --filterset "package(sandboxd) & ($(gvisor_stories))" || status=$?
  if ((status == 0)) || [[ -e $report ]]; then count_junit "$report"; fi
  return "$status"
}

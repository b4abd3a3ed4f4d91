# shellcheck shell=bash
# The Docker engine: finding, installing and starting it.
#
# Note: requests to the engine use curl, because the docker command may not be installed. An engine is started only at the
# system's socket, never at an address from a setting.

readonly SYSTEM_SOCKET=/var/run/docker.sock
readonly ENGINE_LOG=/var/log/dockerd.log
readonly ENGINE_START_SECONDS=60

engine_socket=
engine_url=
engine_pid=

# Looks in the same order as sandboxd.
find_engine() {
  local candidate
  engine_socket=${SANDBOXD_DOCKER_SOCKET-}
  engine_socket=${engine_socket#unix://} engine_url=http://engine
  if [[ -n $engine_socket ]]; then return; fi
  case ${DOCKER_HOST-} in
    '') ;;
    unix://*) engine_socket=${DOCKER_HOST#unix://} && return ;;
    tcp://*) engine_url=http://${DOCKER_HOST#tcp://} && return ;;
    *) give_up "DOCKER_HOST must begin with \`unix://\` or \`tcp://\`, not $DOCKER_HOST" ;;
  esac
  engine_socket=$SYSTEM_SOCKET
  for candidate in "$SYSTEM_SOCKET" ~/.docker/run/docker.sock ~/.orbstack/run/docker.sock \
    ~/.colima/default/docker.sock ~/.rd/docker.sock; do
    if [[ -e $candidate ]]; then
      engine_socket=$candidate
      return
    fi
  done
}

engine_address() {
  if [[ -n $engine_socket ]]; then
    echo "unix://$engine_socket"
  else
    echo "tcp://${engine_url#http://}"
  fi
}

engine_get() {
  curl --silent --fail --noproxy '*' --max-time 10 ${engine_socket:+--unix-socket "$engine_socket"} "$engine_url/$1"
}

engine_answers() {
  [[ $(engine_get _ping 2>/dev/null) == OK ]]
}

# Makes sure that an engine responds. It may restart the calling script, so call it early, with the script's own arguments.
ensure_engine() {
  find_engine
  if engine_denies_access; then restart_with_engine_group "$@"; fi
  if engine_answers; then return; fi
  [[ $engine_socket == "$SYSTEM_SOCKET" || $engine_socket == /run/docker.sock ]] || give_up \
    "no Docker engine responds at $(engine_address). Start it, or set SANDBOXD_DOCKER_SOCKET or DOCKER_HOST to another one."
  if ! engine_runs; then
    ensure_engine_program
    # The package starts the service itself, but only on a machine with a service manager.
    engine_runs || start_engine
  fi
  say "  waiting for the Docker engine at $(engine_address)"
  succeeds_within "$ENGINE_START_SECONDS" engine_has_started || true
  if engine_denies_access; then restart_with_engine_group "$@"; fi
  engine_answers || give_up "no Docker engine responds at $(engine_address).$(last_lines_of_engine_log)"
}

# Checks the process id that dockerd records. It may be recorded before the engine responds.
engine_runs() {
  local pid
  pid=$(cat /var/run/docker.pid 2>/dev/null) && [[ -d /proc/$pid ]]
}

# The packages of the engine, one per line.
missing_engine_packages() {
  echo docker.io
  # A separate package in newer distributions.
  if offers_package docker-cli; then echo docker-cli; fi
  # If the kernel uses AppArmor, no container starts without the program that loads the profiles.
  [[ $(cat /sys/module/apparmor/parameters/enabled 2>/dev/null) != Y ]] || has apparmor_parser || echo apparmor
}

ensure_engine_program() {
  local packages
  if has dockerd; then return; fi
  if can_be_root; then refresh_package_lists; fi
  mapfile -t packages < <(missing_engine_packages)
  install_packages "${packages[@]}" || give_up "no Docker engine responds at $(engine_address), and none is installed."
}

start_engine() {
  can_be_root || give_up "no Docker engine responds at $(engine_address), and this user cannot start it.
Run as root: systemctl start docker      (or, without systemd: dockerd)"
  if [[ -d /run/systemd/system ]]; then
    say "  starting the Docker engine: systemctl start docker"
    as_root systemctl start docker || warn "systemctl could not start docker; see: journalctl -u docker"
  else
    say "  starting the Docker engine: dockerd, log in $ENGINE_LOG"
    # The engine has its own session and outlives this terminal. The log is truncated, so it shows this start only.
    # shellcheck disable=SC2016 # the inner shell expands it
    engine_pid=$(close_own_descriptors && as_root bash -c 'setsid dockerd >"$0" 2>&1 </dev/null & echo $!' "$ENGINE_LOG")
  fi
}

# Also true if the engine has already ended.
engine_has_started() {
  engine_answers || engine_denies_access || [[ -n $engine_pid && ! -d /proc/$engine_pid ]]
}

last_lines_of_engine_log() {
  if [[ -n $engine_pid ]]; then
    printf ' The last lines of %s:\n%s' "$ENGINE_LOG" "$(tail -n 15 "$ENGINE_LOG")"
  elif [[ -d /run/systemd/system ]]; then
    printf ' Its log: journalctl -u docker'
  fi
}

engine_denies_access() {
  [[ -S $engine_socket && ! -w $engine_socket ]]
}

# Access to the engine equals root, so the script never adds a user to the engine's group. A user who can become root gets
# the group for this run only.
restart_with_engine_group() {
  local group name advice
  group=$(stat --dereference --format %g "$engine_socket")
  name=$(stat --dereference --format %G "$engine_socket")
  advice="To allow it permanently, run as root: usermod -aG $name $(id -un)
and log in again. (Members of this group can become root.)"
  [[ -z ${STARTED_WITH_ENGINE_GROUP-} ]] || give_up "the engine's socket $engine_socket cannot be used. $advice"
  can_be_root || give_up "this user is not allowed to use the Docker engine at $(engine_address). $advice"
  [[ -n ${ENGINE_GROUP_QUIETLY-} ]] || warn "this user is not allowed to use the Docker engine; this run uses the group $name. $advice"
  exec sudo --preserve-env setpriv --reuid="$EUID" --regid="$(id -g)" --groups="$(id -G | tr ' ' ,),$group" \
    env STARTED_WITH_ENGINE_GROUP=yes PATH="$PATH" HOME="$HOME" "$this_script" "$@"
}

# Makes sure that the docker command exists and uses the same engine, for scripts that need more than curl.
ensure_docker_command() {
  DOCKER_HOST=$(engine_address)
  export DOCKER_HOST
  if has docker; then return; fi
  if can_be_root; then refresh_package_lists; fi
  # Older distributions have it only in docker.io, which would install a second engine.
  { offers_package docker-cli && install_packages docker-cli; } \
    || give_up "the docker command is missing, which the image's smoke test needs. Install Docker's command line client."
}

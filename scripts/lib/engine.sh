# shellcheck shell=bash
# The Docker engine: where it is, whether it answers, installing and starting it.
#
# What may surprise: the engine is asked by curl, because the docker command need not be installed; and an engine is
# only ever started at the system's socket, never where a setting names another address.

readonly SYSTEM_SOCKET=/var/run/docker.sock
readonly ENGINE_LOG=/var/log/dockerd.log
readonly ENGINE_START_SECONDS=60

engine_socket=
engine_url=
engine_pid=

# The order is sandboxd's own.
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

# Makes sure that an engine answers. It may start the calling script over, so it is called early, with the script's own
# arguments.
ensure_engine() {
  find_engine
  if engine_shuts_us_out; then start_over_with_engine_group "$@"; fi
  if engine_answers; then return; fi
  [[ $engine_socket == "$SYSTEM_SOCKET" || $engine_socket == /run/docker.sock ]] || give_up \
    "no Docker engine answers at $(engine_address). Start it, or name another one in SANDBOXD_DOCKER_SOCKET or DOCKER_HOST."
  if ! engine_runs; then
    ensure_engine_program
    # A package starts its service by itself, but only where there is something that manages services.
    engine_runs || start_engine
  fi
  say "  waiting for the Docker engine at $(engine_address)"
  holds_within "$ENGINE_START_SECONDS" engine_has_begun || true
  if engine_shuts_us_out; then start_over_with_engine_group "$@"; fi
  engine_answers || give_up "no Docker engine answers at $(engine_address).$(engine_last_words)"
}

# dockerd's own record of its process id. It may be there before the engine answers.
engine_runs() {
  local pid
  pid=$(cat /var/run/docker.pid 2>/dev/null) && [[ -d /proc/$pid ]]
}

# One per line.
missing_engine_packages() {
  echo docker.io
  # A package of its own in newer distributions.
  if offers_package docker-cli; then echo docker-cli; fi
  # Where the kernel has AppArmor, no container starts without the program that loads the profiles.
  [[ $(cat /sys/module/apparmor/parameters/enabled 2>/dev/null) != Y ]] || has apparmor_parser || echo apparmor
}

ensure_engine_program() {
  local packages
  if has dockerd; then return; fi
  if can_be_root; then refresh_package_lists; fi
  mapfile -t packages < <(missing_engine_packages)
  install_packages "${packages[@]}" || give_up "no Docker engine answers at $(engine_address), and none is installed."
}

start_engine() {
  can_be_root || give_up "no Docker engine answers at $(engine_address), and this user cannot start it.
Type, as root: systemctl start docker      (or, without systemd: dockerd)"
  if [[ -d /run/systemd/system ]]; then
    say "  starting the Docker engine: systemctl start docker"
    as_root systemctl start docker || warn "systemctl could not start docker; see: journalctl -u docker"
  else
    say "  starting the Docker engine: dockerd, with its log in $ENGINE_LOG"
    # A session of its own, so that it outlives this terminal. The log is cut: what counts is this start.
    # shellcheck disable=SC2016 # the inner shell expands it
    engine_pid=$(as_root bash -c 'setsid dockerd >"$0" 2>&1 </dev/null & echo $!' "$ENGINE_LOG")
  fi
}

# Or has ended again.
engine_has_begun() {
  engine_answers || engine_shuts_us_out || [[ -n $engine_pid && ! -d /proc/$engine_pid ]]
}

engine_last_words() {
  if [[ -n $engine_pid ]]; then
    printf ' The last lines of %s:\n%s' "$ENGINE_LOG" "$(tail -n 15 "$ENGINE_LOG")"
  elif [[ -d /run/systemd/system ]]; then
    printf ' Its log: journalctl -u docker'
  fi
}

engine_shuts_us_out() {
  [[ -S $engine_socket && ! -w $engine_socket ]]
}

# Whoever may use the engine is as good as root, so nobody is put into its group for good without having typed that.
# A person who can become root lends this one run the group.
start_over_with_engine_group() {
  local group name advice
  group=$(stat --dereference --format %g "$engine_socket")
  name=$(stat --dereference --format %G "$engine_socket")
  advice="To have it always, type, as root: usermod -aG $name $(id -un)
and log in again. (Members of this group can become root.)"
  [[ -z ${STARTED_WITH_ENGINE_GROUP-} ]] || give_up "the engine's socket $engine_socket cannot be used. $advice"
  can_be_root || give_up "this user may not use the Docker engine at $(engine_address). $advice"
  [[ -n ${ENGINE_GROUP_QUIETLY-} ]] || warn "this user may not use the Docker engine; this run gets the group $name. $advice"
  exec sudo --preserve-env setpriv --reuid="$EUID" --regid="$(id -g)" --groups="$(id -G | tr ' ' ,),$group" \
    env STARTED_WITH_ENGINE_GROUP=yes PATH="$PATH" HOME="$HOME" "$this_script" "$@"
}

# The docker command, for those who cannot do with curl, speaking to the same engine.
ensure_docker_command() {
  DOCKER_HOST=$(engine_address)
  export DOCKER_HOST
  if has docker; then return; fi
  if can_be_root; then refresh_package_lists; fi
  # Older distributions have it only in docker.io, which would bring a second engine.
  { offers_package docker-cli && install_packages docker-cli; } \
    || give_up "the docker command is missing, which the image's smoke test needs. Install Docker's command line client."
}

# shellcheck shell=bash
# The daemon of this checkout: its settings and state, start and stop.
#
# Note: the process id in the file may belong to another program by now, so it counts only if that process is sandboxd. A
# running daemon is up to date only if it was started with the same programs and settings.

readonly DAEMON_PID=$RUN_DIR/sandboxd.pid
readonly DAEMON_LOG=$RUN_DIR/sandboxd.log
readonly DAEMON_STAMP=$RUN_DIR/sandboxd.stamp
readonly READY_SECONDS=180
# The daemon itself gives running requests ten seconds to finish.
readonly STOP_SECONDS=30

sandboxd=
settings=

# Selects this program as the daemon and reads the settings that it would use.
use_daemon() {
  sandboxd=$1
  keep_sockets_beside_state
  settings=$("$sandboxd" check-config) || give_up "the settings above are invalid. Correct them in .env or in the environment."
  # Usually a typing error.
  grep ' is not a setting of this version' <<<"$settings" >&2 || true
}

# Prints one value of `check-config`. Its columns are separated by two or more spaces.
setting() {
  sed -n "s/^$1  *//p" <<<"$settings" | sed 's/  .*//'
}

setting_is_default() {
  grep -q "^$1 .* default\$" <<<"$settings"
}

# The default run directory of an ordinary user is deleted when the user logs out, but the daemon and the sandboxes keep
# running. The path of a socket can have 108 bytes, of which sandboxd leaves 58 for this directory.
keep_sockets_beside_state() {
  local directory
  directory=$(state_dir)/agents
  if ((EUID != 0)) && [[ -z ${SANDBOXD_RUN_DIR-} ]] && ((${#directory} <= 58)); then
    export SANDBOXD_RUN_DIR=$directory
  fi
}

# The effective value of SANDBOXD_STATE_DIR, computed without the daemon's program.
state_dir() {
  if [[ -n ${SANDBOXD_STATE_DIR-} ]]; then
    echo "$SANDBOXD_STATE_DIR"
  elif ((EUID == 0)); then
    echo /var/lib/sandboxd
  else
    echo "${XDG_STATE_HOME:-$HOME/.local/state}/sandboxd"
  fi
}

# The URL of the daemon for clients on this machine.
daemon_url() {
  local host
  host=$(setting SANDBOXD_BIND_HOST)
  case $host in
    0.0.0.0 | ::) host=127.0.0.1 ;;
    *:*) host=[$host] ;;
  esac
  echo "http://$host:$(setting SANDBOXD_PORT)"
}

# The process id of the daemon that `make up-native` started, if it is running.
daemon_pid() {
  local pid command
  pid=$(cat "$DAEMON_PID" 2>/dev/null) && [[ $pid =~ ^[0-9]+$ ]] || return 1
  command=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") || return 1
  [[ $command == */sandboxd\ serve\  ]] && echo "$pid"
}

# A checksum of the programs and settings, which shows whether a running daemon is up to date.
daemon_stamp() {
  { sha256sum "$sandboxd" "$(setting SANDBOXD_AGENT_PATH)" && echo "$settings" "${SANDBOXD_ADMIN_TOKEN-}"; } | sha256sum
}

ensure_daemon() {
  # Without the lock, two calls at the same time would start two daemons, of which only one is recorded.
  exec {lock}>"$RUN_DIR/lock"
  flock --wait 300 "$lock" || give_up "another \`make up-native\` of this checkout is still running"
  if daemon_pid >/dev/null; then
    if [[ $(daemon_stamp) == "$(cat "$DAEMON_STAMP" 2>/dev/null)" ]]; then
      say "sandboxd is already running"
    else
      say "the programs or the settings have changed; restarting sandboxd"
      stop_daemon
      start_daemon
    fi
  else
    start_daemon
  fi
  wait_until_ready
  exec {lock}>&-
}

start_daemon() {
  refuse_taken_port
  [[ ! -e $DAEMON_LOG ]] || mv -- "$DAEMON_LOG" "$DAEMON_LOG.1"
  rm -f -- "$DAEMON_PID"
  say "starting sandboxd"
  daemon_stamp >"$DAEMON_STAMP"
  # The inner shell writes its own process id and then becomes the daemon. So a kill at any moment cannot leave a daemon
  # without a recorded process id. The daemon has its own session and outlives this terminal. The umask is set because a
  # strict one would prevent the sandboxes from using the daemon's sockets.
  # shellcheck disable=SC2016 # the inner shell expands it
  (
    close_own_descriptors
    exec setsid bash -c 'umask 022; echo $$ >"$0"; exec "$1" serve' "$DAEMON_PID" "$sandboxd"
  ) </dev/null >"$DAEMON_LOG" 2>&1 &
  succeeds_within 5 daemon_has_started || give_up "sandboxd could not be started"
}

# Also true if the daemon has already ended. wait_until_ready reports that.
daemon_has_started() {
  daemon_pid >/dev/null || { [[ -s $DAEMON_PID ]] && [[ ! -d /proc/$(<"$DAEMON_PID") ]]; }
}

refuse_taken_port() {
  local port address owner
  port=$(setting SANDBOXD_PORT)
  [[ $port != 0 ]] || give_up "SANDBOXD_PORT=0 would select an unknown port; set a port number"
  address=$(daemon_url) address=${address#http://}
  if ! something_listens_at "$address"; then return; fi
  if curl --silent --noproxy '*' --max-time 5 "http://$address/v1/health" 2>/dev/null | grep -q '"engine"'; then
    owner="a sandboxd that this checkout's \`make up-native\` did not start"
  else
    owner="another program"
  fi
  owner+=$(port_owner "$port")
  give_up "port $port is in use by $owner.
Stop it, or choose another port: SANDBOXD_PORT=18080 make up-native      (or set it in .env permanently)"
}

something_listens_at() {
  local host=${1%:*} port=${1##*:}
  host=${host#[} host=${host%]}
  # shellcheck disable=SC2016 # the inner shell expands it
  timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$host" "$port" 2>/dev/null
}

# Prints the program that uses the port. Only root can see it, and only if ss is installed.
port_owner() {
  has ss || return 0
  ss -Hltnp "sport = :$1" 2>/dev/null | sed -n 's/.*users:((\("[^"]*"\),pid=\([0-9]*\).*/ (\1, process \2)/p' | head -n 1
}

wait_until_ready() {
  local url answer missing shown='' end=$((SECONDS + READY_SECONDS))
  url=$(daemon_url)/v1/ready
  until answer=$(curl --silent --noproxy '*' --max-time 5 --write-out '\n%{http_code}' "$url") && [[ ${answer##*$'\n'} == 200 ]]; do
    daemon_pid >/dev/null || give_up "sandboxd has exited. $(last_lines_of_daemon_log)"
    ((SECONDS < end)) || give_up "sandboxd is not ready after $READY_SECONDS seconds. $(last_lines_of_daemon_log)"
    missing=$(sed -n 's/.*"missing":"\([^"]*\)".*/\1/p' <<<"$answer")
    if [[ -n $missing && $missing != "$shown" ]]; then
      say "  waiting for: $missing"
      shown=$missing
    fi
    sleep 0.2
  done
}

last_lines_of_daemon_log() {
  printf 'The last lines of its log, %s:\n%s' "$DAEMON_LOG" "$(tail -n 20 "$DAEMON_LOG" 2>/dev/null)"
}

stop_daemon() {
  local pid
  pid=$(daemon_pid) || return 0
  kill -TERM "$pid" || give_up "process $pid belongs to another user; run \`make down\` as that user"
  if ! succeeds_within "$STOP_SECONDS" daemon_is_gone; then
    warn "sandboxd (process $pid) did not stop within $STOP_SECONDS seconds; killing it. The next start recovers its unfinished work."
    kill -KILL "$pid" || true
    succeeds_within 5 daemon_is_gone || give_up "process $pid cannot be killed"
  fi
  rm -f -- "$DAEMON_PID" "$DAEMON_STAMP"
}

daemon_is_gone() {
  ! daemon_pid >/dev/null
}

# shellcheck shell=bash
# The daemon of this checkout: its settings, whether it runs, starting, stopping.
#
# What may surprise: a process id in a file may long be another program's, so it counts only while the process is
# sandboxd; and a daemon is taken for up to date only if programs and settings are those it was started with.

readonly DAEMON_PID=$RUN_DIR/sandboxd.pid
readonly DAEMON_LOG=$RUN_DIR/sandboxd.log
readonly DAEMON_STAMP=$RUN_DIR/sandboxd.stamp
readonly READY_SECONDS=180
# The daemon itself allows its requests ten seconds.
readonly STOP_SECONDS=30

sandboxd=
settings=

# Takes this program for the daemon, and learns the settings it would run with.
use_daemon() {
  sandboxd=$1
  keep_sockets_beside_state
  settings=$("$sandboxd" check-config) || give_up "the settings above must be mended first, in .env or in the environment."
  # Most often a typing error.
  grep ' is not a setting of this version' <<<"$settings" >&2 || true
}

# One value of `check-config`, whose columns are two or more spaces apart.
setting() {
  sed -n "s/^$1  *//p" <<<"$settings" | sed 's/  .*//'
}

setting_is_default() {
  grep -q "^$1 .* default\$" <<<"$settings"
}

# An ordinary user's default is deleted when the user logs out, and daemon and sandboxes are to outlive that. A socket's
# path has 108 bytes, of which sandboxd leaves 58 to this directory.
keep_sockets_beside_state() {
  local place
  place=$(state_dir)/agents
  if ((EUID != 0)) && [[ -z ${SANDBOXD_RUN_DIR-} ]] && ((${#place} <= 58)); then
    export SANDBOXD_RUN_DIR=$place
  fi
}

# The same as the setting in force, for when there is no daemon to ask.
state_dir() {
  if [[ -n ${SANDBOXD_STATE_DIR-} ]]; then
    echo "$SANDBOXD_STATE_DIR"
  elif ((EUID == 0)); then
    echo /var/lib/sandboxd
  else
    echo "${XDG_STATE_HOME:-$HOME/.local/state}/sandboxd"
  fi
}

# Where a client on this machine finds the daemon.
daemon_url() {
  local host
  host=$(setting SANDBOXD_BIND_HOST)
  case $host in
    0.0.0.0 | ::) host=127.0.0.1 ;;
    *:*) host=[$host] ;;
  esac
  echo "http://$host:$(setting SANDBOXD_PORT)"
}

# The process id of the daemon `make up-native` started, if it lives.
daemon_pid() {
  local pid command
  pid=$(cat "$DAEMON_PID" 2>/dev/null) && [[ $pid =~ ^[0-9]+$ ]] || return 1
  command=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") || return 1
  [[ $command == */sandboxd\ serve\  ]] && echo "$pid"
}

# Tells two starts apart: other programs, other settings.
daemon_stamp() {
  { sha256sum "$sandboxd" "$(setting SANDBOXD_AGENT_PATH)" && echo "$settings" "${SANDBOXD_ADMIN_TOKEN-}"; } | sha256sum
}

ensure_daemon() {
  # Two calls at the same time would start two daemons and lose one of them.
  exec {lock}>"$RUN_DIR/lock"
  flock --wait 300 "$lock" || give_up "another \`make up-native\` of this checkout does not come to its end"
  if daemon_pid >/dev/null; then
    if [[ $(daemon_stamp) == "$(cat "$DAEMON_STAMP" 2>/dev/null)" ]]; then
      say "sandboxd runs already"
    else
      say "the programs or the settings have changed; starting sandboxd again"
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
  # The inner shell writes its own process id and then becomes the daemon, so that no kill between two steps leaves a
  # daemon nobody knows of. A session of its own lets it outlive this terminal, and a person's strict umask must not close
  # its sockets to the sandboxes.
  # shellcheck disable=SC2016 # the inner shell expands it
  setsid bash -c 'umask 022; echo $$ >"$0"; exec "$1" serve' "$DAEMON_PID" "$sandboxd" \
    </dev/null >"$DAEMON_LOG" 2>&1 {lock}>&- &
  holds_within 5 daemon_has_begun || give_up "sandboxd could not be started"
}

# It may have ended since, which is for others to find out.
daemon_has_begun() {
  daemon_pid >/dev/null || { [[ -s $DAEMON_PID ]] && [[ ! -d /proc/$(<"$DAEMON_PID") ]]; }
}

refuse_taken_port() {
  local port address owner
  port=$(setting SANDBOXD_PORT)
  [[ $port != 0 ]] || give_up "with SANDBOXD_PORT=0 nobody would know the port; name one"
  address=$(daemon_url) address=${address#http://}
  if ! something_listens_at "$address"; then return; fi
  if curl --silent --noproxy '*' --max-time 5 "http://$address/v1/health" 2>/dev/null | grep -q '"engine"'; then
    owner="a sandboxd that this checkout's \`make up-native\` did not start"
  else
    owner="another program"
  fi
  owner+=$(port_owner "$port")
  give_up "port $port is taken by $owner.
Stop it, or choose another port: SANDBOXD_PORT=18080 make up-native      (or a line in .env, for good)"
}

something_listens_at() {
  local host=${1%:*} port=${1##*:}
  host=${host#[} host=${host%]}
  # shellcheck disable=SC2016 # the inner shell expands it
  timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$host" "$port" 2>/dev/null
}

# Only root learns whose socket it is, and only where ss is installed.
port_owner() {
  has ss || return 0
  ss -Hltnp "sport = :$1" 2>/dev/null | sed -n 's/.*users:((\("[^"]*"\),pid=\([0-9]*\).*/ (\1, process \2)/p' | head -n 1
}

wait_until_ready() {
  local url answer missing shown='' end=$((SECONDS + READY_SECONDS))
  url=$(daemon_url)/v1/ready
  until answer=$(curl --silent --noproxy '*' --max-time 5 --write-out '\n%{http_code}' "$url") && [[ ${answer##*$'\n'} == 200 ]]; do
    daemon_pid >/dev/null || give_up "sandboxd has ended. $(daemon_last_words)"
    ((SECONDS < end)) || give_up "sandboxd is not ready after $READY_SECONDS seconds. $(daemon_last_words)"
    missing=$(sed -n 's/.*"missing":"\([^"]*\)".*/\1/p' <<<"$answer")
    if [[ -n $missing && $missing != "$shown" ]]; then
      say "  waiting for: $missing"
      shown=$missing
    fi
    sleep 0.2
  done
}

daemon_last_words() {
  printf 'The last lines of its log, %s:\n%s' "$DAEMON_LOG" "$(tail -n 20 "$DAEMON_LOG" 2>/dev/null)"
}

stop_daemon() {
  local pid
  pid=$(daemon_pid) || return 0
  kill -TERM "$pid" || give_up "process $pid belongs to another user; run \`make down\` as that user"
  if ! holds_within "$STOP_SECONDS" daemon_is_gone; then
    warn "sandboxd (process $pid) does not end after $STOP_SECONDS seconds; killing it. The next start mends what it was at."
    kill -KILL "$pid" || true
    holds_within 5 daemon_is_gone || give_up "process $pid cannot be killed"
  fi
  rm -f -- "$DAEMON_PID" "$DAEMON_STAMP"
}

daemon_is_gone() {
  ! daemon_pid >/dev/null
}

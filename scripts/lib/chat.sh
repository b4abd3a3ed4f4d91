# shellcheck shell=bash
# Starts the chat app as a process of this machine, next to the daemon, and stops it.
#
# Note: the chat uses the daemon's token, so that there is one token for both. Each `make up-native` restarts the chat.
# Chats are kept, and the page reports an answer that the restart interrupted.
#
# Needs lib/daemon.sh.

readonly CHAT_PID=$RUN_DIR/chat.pid
readonly CHAT_LOG=$RUN_DIR/chat.log
readonly CHAT_CONFIG_FILE=$RUN_DIR/chat.toml
readonly CHAT_READY_SECONDS=30

chat_pid() {
  local pid command
  pid=$(cat "$CHAT_PID" 2>/dev/null) && [[ $pid =~ ^[0-9]+$ ]] || return 1
  command=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") || return 1
  [[ $command == */chat\  ]] && echo "$pid"
}

chat_is_gone() {
  ! chat_pid >/dev/null
}

chat_address() {
  local address=${CHAT_BIND:-127.0.0.1:3000}
  echo "${address/0.0.0.0:/127.0.0.1:}"
}

ensure_chat() {
  local program=$1 token
  [[ -n ${REMCOCHAT_CONFIG_PATH-} ]] || write_chat_config
  stop_chat
  ! something_listens_at "$(chat_address)" || give_up "the chat's address $(chat_address) is in use.
Choose another one: CHAT_BIND=127.0.0.1:13000 make up-native      (or set it in .env permanently)"
  say "starting the chat"
  token=$(admin_token)
  # Started in the same way as the daemon, see lib/daemon.sh. The token is passed in the environment, which other users
  # cannot read.
  # shellcheck disable=SC2016 # the inner shell expands it
  (
    close_own_descriptors
    CHAT_STATE_DIR=${CHAT_STATE_DIR:-$(setting SANDBOXD_STATE_DIR)-chat} \
      REMCOCHAT_CONFIG_PATH=${REMCOCHAT_CONFIG_PATH:-$PWD/$CHAT_CONFIG_FILE} \
      REMCOCHAT_ENABLE_BASH_TOOL=${REMCOCHAT_ENABLE_BASH_TOOL:-1} REMCOCHAT_ADMIN_TOKEN=$token \
      exec setsid bash -c 'umask 077; echo $$ >"$0"; exec "$1"' "$CHAT_PID" "$program"
  ) </dev/null >"$CHAT_LOG" 2>&1 &
  succeeds_within "$CHAT_READY_SECONDS" chat_answers || give_up "the chat does not respond. The last lines of its log, $CHAT_LOG:
$(tail -n 20 "$CHAT_LOG" 2>/dev/null)"
}

chat_answers() {
  curl --silent --fail --noproxy '*' --max-time 5 --output /dev/null "http://$(chat_address)/api/health"
}

# Writes the configuration of the compose stack with two changes: the address of sandboxd, and that a browser on this machine
# needs no token.
write_chat_config() {
  sed -e "s|http://sandboxd:8080|$(daemon_url)|" -e 's|^access = "lan"|access = "localhost"|' \
    docker/config.toml >"$CHAT_CONFIG_FILE"
}

admin_token() {
  if [[ -n ${SANDBOXD_ADMIN_TOKEN-} ]]; then
    printf '%s' "$SANDBOXD_ADMIN_TOKEN"
  else
    cat -- "$(setting SANDBOXD_STATE_DIR)/token"
  fi
}

stop_chat() {
  local pid
  pid=$(chat_pid) || return 0
  kill -TERM "$pid" || give_up "process $pid belongs to another user; run \`make down\` as that user"
  if ! succeeds_within "$STOP_SECONDS" chat_is_gone; then
    kill -KILL "$pid" || true
    succeeds_within 5 chat_is_gone || give_up "process $pid cannot be killed"
  fi
  rm -f -- "$CHAT_PID"
}

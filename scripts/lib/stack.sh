# shellcheck shell=bash
# The compose stack: which compose there is, its settings in .env, its images, and whether it is well.
#
# What may surprise: the token travels in the environment alone, never in a command line; a `.env` that is there is never
# written to; and where no container registry answers, the programs are built on this machine and copied onto a base made of
# Debian's packages.
#
# Needs lib/daemon.sh, lib/engine.sh, lib/image.sh and lib/packages.sh.

readonly STACK_READY_SECONDS=900
readonly MIN_TOKEN_CHARS=32
readonly PREBUILT=$RUN_DIR/images
readonly PREBUILT_BASE=sandboxd-base:trixie
# A registry that cannot be reached may also just never answer.
readonly PULL_SECONDS=300

compose=()

# Both spellings are the same to us.
find_compose() {
  if docker compose version >/dev/null 2>&1; then
    compose=(docker compose)
  elif docker-compose version >/dev/null 2>&1; then
    compose=(docker-compose)
  else
    return 1
  fi
  # Compose reads `.env` by itself.
  [[ $ENV_FILE == .env ]] || compose+=(--env-file "$ENV_FILE")
}

ensure_compose() {
  local package
  if find_compose; then return; fi
  if can_be_root; then refresh_package_lists; fi
  for package in docker-compose-v2 docker-compose-plugin docker-compose; do
    if offers_package "$package" && install_packages "$package" && find_compose; then return; fi
  done
  give_up "there is neither \`docker compose\` nor \`docker-compose\`, and this machine's packages do not bring one.
Install Docker's compose plugin, or run both programs without it: make up-native"
}

# For `down`, which needs no token to know what to stop.
stack_exists() {
  find_compose && [[ -n $(REMCOCHAT_ADMIN_TOKEN=${REMCOCHAT_ADMIN_TOKEN:-none} "${compose[@]}" ps -q 2>/dev/null) ]]
}

stop_stack() {
  REMCOCHAT_ADMIN_TOKEN=${REMCOCHAT_ADMIN_TOKEN:-none} "${compose[@]}" down
}

# The first run's, with a token of 256 bits that only this user can read.
ensure_env_file() {
  local token
  if [[ ! -e $ENV_FILE ]]; then
    token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    (
      umask 077
      set -o noclobber
      { printf '# Settings of the stack; .env.example has them all.\nCOMPOSE_PROJECT_NAME=%s\n' "${COMPOSE_PROJECT_NAME:-sandboxd}" \
        && printf 'REMCOCHAT_ADMIN_TOKEN=%s\n' "${REMCOCHAT_ADMIN_TOKEN:-$token}"; } >"$ENV_FILE"
    ) || give_up "$ENV_FILE cannot be written in $PWD"
    say "made $ENV_FILE with a new token"
    read_env_file
  fi
  [[ -n ${REMCOCHAT_ADMIN_TOKEN-} ]] || give_up "there is a $ENV_FILE without REMCOCHAT_ADMIN_TOKEN, and it is yours to change. To add one:
  echo \"REMCOCHAT_ADMIN_TOKEN=\$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')\" >>$ENV_FILE"
  ((${#REMCOCHAT_ADMIN_TOKEN} >= MIN_TOKEN_CHARS)) \
    || give_up "REMCOCHAT_ADMIN_TOKEN has ${#REMCOCHAT_ADMIN_TOKEN} characters, and $MIN_TOKEN_CHARS are needed"
}

# Compose reads this path on the engine's machine.
name_engine_socket() {
  [[ -n $engine_socket ]] || give_up "the engine is at $(engine_address), and the stack needs one with a socket on this machine."
  export SANDBOXD_DOCKER_SOCKET=$engine_socket
}

# Images by the sources where a registry answers, and otherwise by programs that this machine builds.
build_stack() {
  if [[ ${STACK_PREBUILT-} != 1 ]] && registry_answers; then
    say "building the programs' images; the first time takes some minutes"
    "${compose[@]}" build || give_up "the images could not be built; the lines above say why.
To build the programs on this machine instead: STACK_PREBUILT=1 make up"
  else
    build_prebuilt
  fi
}

# Pulls what is needed anyway.
registry_answers() {
  local base=${BASE_IMAGE:-debian:trixie-slim}
  say "looking for $base"
  timeout "$PULL_SECONDS" docker pull --quiet "$base" >/dev/null 2>&1
}

build_prebuilt() {
  say "no container registry is used: building the programs on this machine"
  ensure_rust
  build_agent
  build_web
  build_daemon_and_chat
  if ! docker image inspect "$PREBUILT_BASE" >/dev/null 2>&1; then
    ensure_image_tools
    docker/make-base || give_up "the base of the programs' images could not be made; the lines above say why."
  fi
  fill_prebuilt "$(target_dir)/release"
  build_prebuilt_image sandboxd "${STACK_SANDBOXD_IMAGE:-sandboxd:local}"
  build_prebuilt_image chat "${STACK_CHAT_IMAGE:-sandboxd-chat:local}"
}

# The context of prebuilt.Dockerfile.
fill_prebuilt() {
  rm -rf -- "$PREBUILT"
  mkdir -p "$PREBUILT"
  cp -- "$1/sandboxd" "$1/sandbox-agent" "$1/chat" docker/answers docker/config.toml "$PREBUILT/"
  cp -r -- sandbox-images "$PREBUILT/"
  # The state dir's umask is 077 for some, and the images are for any user.
  chmod -R u=rwX,go=rX "$PREBUILT"
}

build_prebuilt_image() {
  # Nothing is fetched, so no network is needed either.
  docker build --quiet --network none --file docker/prebuilt.Dockerfile --target "$1" --tag "$2" "$PREBUILT" >/dev/null \
    || give_up "the image $2 could not be built; the lines above say why."
}

# The daemon in its container builds the sandbox image with this machine's certificates, unless .env names others.
share_machine_certificates() {
  [[ -z ${SANDBOXD_BUILD_CA-} && -r $MACHINE_CERTIFICATES ]] || return 0
  install -m 0644 -- "$MACHINE_CERTIFICATES" docker/certs/build.pem
  export SANDBOXD_BUILD_CA=/etc/sandboxd/certs/build.pem
}

# The daemon in its container can build the sandbox image of a base that the engine can pull or has; making one takes a
# root's debootstrap, which only this machine has.
ensure_sandbox_base() {
  local image=${SANDBOXD_IMAGE:-$DEFAULT_IMAGE} found
  if found=$(docker image inspect "$image" 2>/dev/null) && image_is_current "$image" "$found"; then return; fi
  if docker image inspect remcochat-sandbox-base:trixie >/dev/null 2>&1; then return; fi
  if timeout "$PULL_SECONDS" docker pull --quiet node:24-trixie-slim >/dev/null 2>&1; then return; fi
  ensure_image_tools
  sandbox-images/make-base --import || give_up "the sandbox image's base could not be made; the lines above say why."
}

start_stack() {
  "${compose[@]}" up --detach --no-build --remove-orphans || give_up "the stack could not be started; the lines above say why.
A port that is taken is chosen in .env: PUBLISH_CHAT=127.0.0.1:13000"
}

wait_for_stack() {
  local service
  docker image inspect "${SANDBOXD_IMAGE:-$DEFAULT_IMAGE}" >/dev/null 2>&1 \
    || say "sandboxd builds the sandbox image now, which takes some minutes, once"
  for service in sandboxd chat; do
    say "waiting for $service"
    holds_within "$STACK_READY_SECONDS" service_has_settled "$service" || true
    [[ $(service_health "$service") == healthy ]] || give_up "$service is $(service_health "$service"). The last lines of its log:
$("${compose[@]}" logs --tail 20 "$service" 2>&1)"
  done
}

# An image of an earlier version is built anew, and new sandboxes are made of it. Those that run keep theirs until they are parked.
renew_sandbox_image() {
  local image=${SANDBOXD_IMAGE:-$DEFAULT_IMAGE} found
  [[ ! ${SANDBOXD_DISABLE_AUTOBUILD-} =~ ^(1|true|yes|on)$ ]] || return 0
  found=$(docker image inspect "$image" 2>/dev/null) || return 0
  if image_is_current "$image" "$found"; then return; fi
  say "$image was built from another Dockerfile; building it anew, which takes some minutes, once"
  "${compose[@]}" exec -T sandboxd sandboxd build-image \
    || warn "the sandbox image could not be built; sandboxes stay without what is new in it. To try again: make up"
}

# Well, or never going to be.
service_has_settled() {
  case $(service_health "$1") in
    healthy | unhealthy | exited | dead | restarting) ;;
    *) return 1 ;;
  esac
}

# What the container's check says, or its state where it does not run.
service_health() {
  local id
  id=$("${compose[@]}" ps -q "$1" 2>/dev/null)
  [[ -n $id ]] || { echo missing && return; }
  docker inspect --format '{{if eq .State.Status "running"}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}' "$id"
}

stack_url() {
  local place=${PUBLISH_CHAT:-127.0.0.1:3000}
  [[ $place == *:* ]] || place=127.0.0.1:$place
  echo "http://${place/0.0.0.0:/127.0.0.1:}"
}

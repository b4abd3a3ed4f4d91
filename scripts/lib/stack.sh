# shellcheck shell=bash
# The compose stack: which compose there is, its settings in .env, its images, and whether it is well.
#
# What may surprise: the token travels in the environment alone, never in a command line; a `.env` that is there is never
# written to; and where no container registry answers, the programs are built on this machine and copied onto a base made of
# Debian's packages.
#
# Needs lib/build.sh, lib/daemon.sh, lib/engine.sh, lib/image.sh, lib/packages.sh, lib/rust.sh and lib/web.sh.

readonly STACK_READY_SECONDS=900
# A port that is taken is found before anything is built.
readonly STACK_PORTS=("chat PUBLISH_CHAT 3000 13000" "sandboxd PUBLISH_PREVIEWS 8081 18081")
readonly MIN_TOKEN_CHARS=32
readonly PREBUILT=$RUN_DIR/images
readonly PREBUILT_BASE=sandboxd-base:trixie
readonly SANDBOX_BASE=remcochat-sandbox-base:trixie
readonly PUBLIC_SANDBOX_BASE=node:24-trixie-slim
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

# The first of the distribution's packages with compose; nothing where there is none.
compose_package() {
  local package
  for package in docker-compose-v2 docker-compose-plugin docker-compose; do
    if offers_package "$package"; then
      echo "$package"
      return
    fi
  done
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

# Whether the programs are compiled on this machine, and not in containers of a registry's images.
builds_here() {
  [[ ${STACK_PREBUILT-} == 1 ]] || ! registry_answers
}

# Pulls what is needed anyway.
registry_answers() {
  local base=${BASE_IMAGE:-debian:trixie-slim}
  say "  looking for $base in its registry"
  timeout "$PULL_SECONDS" docker pull --quiet "$base" >/dev/null 2>&1
}

# The packages for compiling here. All at once, because each call of apt takes seconds.
ensure_tools_to_build_here() {
  local missing=()
  say "  no container registry is used; the programs are compiled on this machine"
  mapfile -t missing < <(missing_compiler && missing_image_tools)
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}" || exit 1
  ensure_rust_or_rustup
}

# One Debian for the programs' images and, with Node, for the sandbox image.
make_bases() {
  export MAKE_BASE_DOWNLOADS=$PWD/$RUN_DIR/downloads
  if ! docker image inspect "$PREBUILT_BASE" >/dev/null 2>&1; then
    docker/make-base || give_up "Debian for the images could not be made; the lines above say why."
  fi
  if sandbox_image_is_current || docker image inspect "$SANDBOX_BASE" >/dev/null 2>&1; then return; fi
  if timeout "$PULL_SECONDS" docker pull --quiet "$PUBLIC_SANDBOX_BASE" >/dev/null 2>&1; then return; fi
  sandbox-images/make-base --on "$PREBUILT_BASE" || give_up "the sandbox image's base could not be made; the lines above say why."
}

pull_sandbox_base() {
  sandbox_image_is_current || docker pull "$PUBLIC_SANDBOX_BASE"
}

# Whether no sandbox image is to be built. Under another name it is the operator's, and sandboxd looks after it.
sandbox_image_is_current() {
  local image=${SANDBOXD_IMAGE:-$DEFAULT_IMAGE} found
  [[ $image == "$DEFAULT_IMAGE" && ! ${SANDBOXD_DISABLE_AUTOBUILD-} =~ ^(1|true|yes|on)$ ]] || return 0
  found=$(docker image inspect "$image" 2>/dev/null) && image_is_current "$image" "$found"
}

# An image of an earlier version is built anew, and new sandboxes are made of it. Those that run keep theirs until they are
# parked.
build_sandbox_image() {
  local base=$SANDBOX_BASE
  if sandbox_image_is_current; then return; fi
  ! docker image inspect "$PUBLIC_SANDBOX_BASE" >/dev/null 2>&1 || base=$PUBLIC_SANDBOX_BASE
  if build_image_on "$base"; then return; fi
  docker image inspect "$DEFAULT_IMAGE" >/dev/null 2>&1 || give_up "the sandbox image could not be built; the lines above say why."
  tell "note: the sandbox image could not be renewed; sandboxes do without what is new in it. Its log: $PWD/$STEP_LOGS/image.log"
}

# With the registry's images, from the sources.
build_stack_image() {
  BUILDKIT_PROGRESS=plain "${compose[@]}" build "$1" || give_up "the image could not be built; the lines above say why.
To compile the programs on this machine instead: STACK_PREBUILT=1 make up"
}

compile_sandboxd() {
  ensure_rust
  build_daemon
}

# What comes first goes first: while sandboxd is compiled or its image is built, this takes what time is left.
compile_page() {
  renice --priority 19 --pid "$BASHPID" >/dev/null || true
  build_web
}

compile_chat() {
  ensure_rust
  build_chat
}

start_sandboxd_built_here() {
  fill_prebuilt sandboxd release/sandboxd release/sandbox-agent
  cp -r -- sandbox-images "$PREBUILT/sandboxd/"
  build_prebuilt_image sandboxd "${STACK_SANDBOXD_IMAGE:-sandboxd:local}"
  start_sandboxd
}

start_chat_built_here() {
  fill_prebuilt chat release/chat
  cp -- docker/config.toml "$PREBUILT/chat/"
  build_prebuilt_image chat "${STACK_CHAT_IMAGE:-sandboxd-chat:local}"
  start_chat
}

# The context of one of the prebuilt-….Dockerfile: these programs, and what checks whether they answer.
fill_prebuilt() {
  local context=$PREBUILT/$1 target program
  shift
  target=$(target_dir)
  rm -rf -- "$context"
  mkdir -p "$context"
  for program in "$@"; do
    cp -- "$target/$program" "$context/"
  done
  cp -- docker/answers "$context/"
}

build_prebuilt_image() {
  # The state dir's umask is 077 for some, and the images are for any user.
  chmod -R u=rwX,go=rX "$PREBUILT/$1"
  # Nothing is fetched, so no network is needed either.
  docker build --quiet --network none --file "docker/prebuilt-$1.Dockerfile" --tag "$2" "$PREBUILT/$1" \
    || give_up "the image $2 could not be built; the lines above say why."
}

# The daemon in its container builds the sandbox image with this machine's certificates, unless .env names others.
share_machine_certificates() {
  [[ -z ${SANDBOXD_BUILD_CA-} && -r $MACHINE_CERTIFICATES ]] || return 0
  install -m 0644 -- "$MACHINE_CERTIFICATES" docker/certs/build.pem
  export SANDBOXD_BUILD_CA=/etc/sandboxd/certs/build.pem
}

# Fails before minutes of building where the stack could not be started after them.
refuse_taken_ports() {
  local line service name port other address
  for line in "${STACK_PORTS[@]}"; do
    read -r service name port other <<<"$line"
    [[ -z $("${compose[@]}" ps -q "$service" 2>/dev/null) ]] || continue
    address=$(published_address "$name" "$port")
    ! something_listens_at "$address" || give_up "port ${address##*:} is taken by another program$(port_owner "${address##*:}").
Stop it, or choose another port: $name=127.0.0.1:$other make up      (or a line in .env, for good)"
  done
}

# Where this machine reaches what a variable of .env publishes.
published_address() {
  local address=${!1:-127.0.0.1:$2}
  [[ $address == *:* ]] || address=127.0.0.1:$address
  echo "${address/0.0.0.0:/127.0.0.1:}"
}

# Without the chat, which is still being built.
start_sandboxd() {
  up_services sandboxd
  wait_for_service sandboxd 8080 /v1/ready
}

start_chat() {
  up_services --remove-orphans
  wait_for_service chat 3000 /api/health
}

up_services() {
  "${compose[@]}" up --detach --no-build "$@" || give_up "the stack could not be started; the lines above say why."
}

# Asks more often than the engine does, whose first check comes after an interval.
wait_for_service() {
  local service=$1 id end=$((SECONDS + STACK_READY_SECONDS))
  id=$("${compose[@]}" ps -q "$service")
  until docker exec "$id" answers "${@:2}" >/dev/null 2>&1; do
    [[ $(service_state "$id") == running ]] && ((SECONDS < end)) \
      || give_up "$service does not answer; its state is: $(service_state "$id"). The last lines of its log:
$(docker logs --tail 20 "$id" 2>&1)"
    sleep 0.3
  done
}

service_state() {
  docker inspect --format '{{.State.Status}}' "$1" 2>/dev/null || echo missing
}

stack_url() {
  echo "http://$(published_address PUBLISH_CHAT 3000)"
}

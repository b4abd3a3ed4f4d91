# shellcheck shell=bash
# The compose stack: the compose command, the settings in .env, the images, and the health of the services.
#
# Note: the token is passed only in the environment, never on a command line. An existing `.env` is never changed. If no
# container registry responds, the programs are built on this machine and copied onto a base made of Debian's packages.
#
# Needs lib/build.sh, lib/daemon.sh, lib/engine.sh, lib/image.sh, lib/packages.sh, lib/rust.sh and lib/web.sh.

readonly STACK_READY_SECONDS=900
# The ports are checked before anything is built.
readonly STACK_PORTS=("chat PUBLISH_CHAT 3000 13000" "sandboxd PUBLISH_PREVIEWS 8081 18081")
readonly MIN_TOKEN_CHARS=32
readonly PREBUILT=$RUN_DIR/images
readonly PREBUILT_BASE=sandboxd-base:trixie
readonly SANDBOX_BASE=remcochat-sandbox-base:trixie
readonly PUBLIC_SANDBOX_BASE=node:24-trixie-slim
# A registry may never respond, instead of failing.
readonly PULL_SECONDS=300

compose=()

# Sets the compose command in either spelling. Fails if there is none.
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

# Prints the first package of the distribution that contains compose, or nothing.
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
  give_up "\`docker compose\` and \`docker-compose\` are missing, and this machine's packages do not contain them.
Install Docker's compose plugin, or run both programs without it: make up-native"
}

# Also works without a token, because `down` does not need one.
stack_exists() {
  find_compose && [[ -n $(REMCOCHAT_ADMIN_TOKEN=${REMCOCHAT_ADMIN_TOKEN:-none} "${compose[@]}" ps -q 2>/dev/null) ]]
}

stop_stack() {
  REMCOCHAT_ADMIN_TOKEN=${REMCOCHAT_ADMIN_TOKEN:-none} "${compose[@]}" down
}

# Creates .env in the first run, with a token of 256 bits. Only this user can read the file.
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
    say "created $ENV_FILE with a new token"
    read_env_file
  fi
  [[ -n ${REMCOCHAT_ADMIN_TOKEN-} ]] || give_up "$ENV_FILE does not set REMCOCHAT_ADMIN_TOKEN, and an existing file is never changed. To add a token:
  echo \"REMCOCHAT_ADMIN_TOKEN=\$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')\" >>$ENV_FILE"
  ((${#REMCOCHAT_ADMIN_TOKEN} >= MIN_TOKEN_CHARS)) \
    || give_up "REMCOCHAT_ADMIN_TOKEN has ${#REMCOCHAT_ADMIN_TOKEN} characters, but needs at least $MIN_TOKEN_CHARS"
}

# Compose reads this path on the engine's machine.
name_engine_socket() {
  [[ -n $engine_socket ]] || give_up "the stack needs an engine with a socket on this machine, but the engine is at $(engine_address)."
  export SANDBOXD_DOCKER_SOCKET=$engine_socket
}

# Whether to compile the programs on this machine, instead of in containers of a registry's images.
builds_here() {
  [[ ${STACK_PREBUILT-} == 1 ]] || ! registry_answers
}

# Pulls an image that the build needs anyway.
registry_answers() {
  local base=${BASE_IMAGE:-debian:trixie-slim}
  say "  looking for $base in its registry"
  timeout "$PULL_SECONDS" docker pull --quiet "$base" >/dev/null 2>&1
}

# Installs the packages for compiling on this machine, in one call, because each call of apt takes seconds.
ensure_tools_to_build_here() {
  local missing=()
  say "  compiling the programs on this machine, without a container registry"
  mapfile -t missing < <(missing_compiler && missing_image_tools)
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}" || exit 1
  ensure_rust_or_rustup
}

# One Debian serves the programs' images and, with Node, the sandbox image.
make_bases() {
  make_debian_base
  get_sandbox_base
}

make_debian_base() {
  export MAKE_BASE_DOWNLOADS=$PWD/$RUN_DIR/downloads
  if docker image inspect "$PREBUILT_BASE" >/dev/null 2>&1; then return; fi
  docker/make-base || give_up "the Debian base image could not be built; see the lines above."
}

# Pulls or builds the base of the sandbox image, unless the sandbox image is current or the base exists.
get_sandbox_base() {
  if sandbox_image_is_current || docker image inspect "$SANDBOX_BASE" >/dev/null 2>&1; then return; fi
  if timeout "$PULL_SECONDS" docker pull --quiet "$PUBLIC_SANDBOX_BASE" >/dev/null 2>&1; then return; fi
  make_debian_base
  sandbox-images/make-base --on "$PREBUILT_BASE" || give_up "the base of the sandbox image could not be built; see the lines above."
}

pull_sandbox_base() {
  sandbox_image_is_current || docker pull "$PUBLIC_SANDBOX_BASE"
}

# Whether no sandbox image has to be built here. An image with another name belongs to the operator, and sandboxd manages it.
sandbox_image_is_current() {
  local found
  scripts_build_the_image || return 0
  found=$(engine_get "images/$DEFAULT_IMAGE/json" 2>/dev/null) && image_is_current "$DEFAULT_IMAGE" "$found"
}

scripts_build_the_image() {
  local autobuild_is_off=${SANDBOXD_DISABLE_AUTOBUILD-}
  [[ ${SANDBOXD_IMAGE:-$DEFAULT_IMAGE} == "$DEFAULT_IMAGE" && ! ${autobuild_is_off,,} =~ ^(1|true|yes|on)$ ]]
}

# Builds the sandbox image, or rebuilds one of an earlier version. New sandboxes use the new image. Running sandboxes keep
# theirs until they are parked.
build_sandbox_image() {
  local base=$SANDBOX_BASE
  if sandbox_image_is_current; then return; fi
  ! docker image inspect "$PUBLIC_SANDBOX_BASE" >/dev/null 2>&1 || base=$PUBLIC_SANDBOX_BASE
  if build_image_on "$base"; then return; fi
  docker image inspect "$DEFAULT_IMAGE" >/dev/null 2>&1 || give_up "the sandbox image could not be built; see the lines above."
  warn "the sandbox image could not be rebuilt; new sandboxes use the previous one. Log: $PWD/$STEP_LOGS/image.log"
}

# Builds an image of the stack from the sources, on the registry's images.
build_stack_image() {
  BUILDKIT_PROGRESS=plain "${compose[@]}" build "$1" || give_up "the image could not be built; see the lines above.
To compile the programs on this machine instead: STACK_PREBUILT=1 make up"
}

compile_sandboxd() {
  ensure_rust
  build_daemon
}

# The first sandboxd on this machine is not optimized, so that it starts earlier. It is optimized together with the chat.
compile_first_sandboxd() {
  if [[ -e $(target_dir)/release/sandboxd ]]; then
    compile_sandboxd
    return
  fi
  ensure_rust
  build_daemon_quickly
}

# Runs with low priority, because sandboxd and its image, which are built at the same time, are needed first.
compile_page() {
  renice --priority 19 --pid "$BASHPID" >/dev/null || true
  build_web
}

compile_chat() {
  ensure_rust
  build_chat
}

start_sandboxd_built_here() {
  ensure_rust
  build_sandboxd_image
  start_sandboxd
}

build_sandboxd_image() {
  fill_prebuilt sandboxd release/sandboxd release/sandbox-agent release/sandboxd-volumes
  cp -r -- sandbox-images "$PREBUILT/sandboxd/"
  build_prebuilt_image sandboxd "${STACK_SANDBOXD_IMAGE:-sandboxd:local}"
}

start_chat_built_here() {
  ensure_rust
  # Was optimized since it was started. Its sandboxes and their commands continue while it restarts.
  cmp --silent "$(target_dir)/release/sandboxd" "$PREBUILT/sandboxd/sandboxd" || build_sandboxd_image
  fill_prebuilt chat release/chat
  cp -- docker/config.toml "$PREBUILT/chat/"
  build_prebuilt_image chat "${STACK_CHAT_IMAGE:-sandboxd-chat:local}"
  start_chat
}

# Fills the build context of a prebuilt-….Dockerfile with these programs and the program of their health checks.
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
  # The files are readable for every user of the image, even if the caller's umask is strict.
  chmod -R u=rwX,go=rX "$PREBUILT/$1"
  # The build downloads nothing and needs no network.
  docker build --quiet --network none --file "docker/prebuilt-$1.Dockerfile" --tag "$2" "$PREBUILT/$1" \
    || give_up "the image $2 could not be built; see the lines above."
}

# Lets the daemon in its container build the sandbox image with this machine's certificates, unless .env names others.
share_machine_certificates() {
  [[ -z ${SANDBOXD_BUILD_CA-} && -r $MACHINE_CERTIFICATES ]] || return 0
  install -m 0644 -- "$MACHINE_CERTIFICATES" docker/certs/build.pem
  export SANDBOXD_BUILD_CA=/etc/sandboxd/certs/build.pem
}

# Fails before the build, which takes minutes, if a port of the stack is in use.
refuse_taken_ports() {
  local line service name port other address
  for line in "${STACK_PORTS[@]}"; do
    read -r service name port other <<<"$line"
    [[ -z $("${compose[@]}" ps -q "$service" 2>/dev/null) ]] || continue
    address=$(published_address "$name" "$port")
    ! something_listens_at "$address" || give_up "port ${address##*:} is in use by another program$(port_owner "${address##*:}").
Stop it, or choose another port: $name=127.0.0.1:$other make up      (or set it in .env permanently)"
  done
}

# The address on this machine of a port that a variable of .env publishes.
published_address() {
  local address=${!1:-127.0.0.1:$2}
  [[ $address == *:* ]] || address=127.0.0.1:$address
  echo "${address/0.0.0.0:/127.0.0.1:}"
}

# Starts sandboxd without the chat, which is still being built.
start_sandboxd() {
  up_services sandboxd
  wait_for_service sandboxd 8080 /v1/ready
}

start_chat() {
  up_services --remove-orphans
  wait_for_service sandboxd 8080 /v1/ready
  wait_for_service chat 3000 /api/health
}

up_services() {
  "${compose[@]}" up --detach --no-build "$@" || give_up "the stack could not be started; see the lines above."
}

# Checks the service more often than the engine does. The engine's first check comes after a whole interval.
wait_for_service() {
  local service=$1 id end=$((SECONDS + STACK_READY_SECONDS))
  id=$("${compose[@]}" ps -q "$service")
  until docker exec "$id" answers "${@:2}" >/dev/null 2>&1; do
    [[ $(service_state "$id") == running ]] && ((SECONDS < end)) \
      || give_up "$service does not respond; its state is: $(service_state "$id"). The last lines of its log:
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

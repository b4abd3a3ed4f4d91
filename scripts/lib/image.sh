# shellcheck shell=bash
# The sandbox image: whether the engine has it, and building it.
#
# Needs lib/daemon.sh for the settings, lib/engine.sh and lib/packages.sh.

# What an image of ours is called. Under another name it is the operator's, and stays as it is.
readonly DEFAULT_IMAGE=remcochat-sandbox:node24
# What this machine trusts, in Debian's place. The build reaches PyPI and the npm registry through HTTPS, and behind a proxy
# that intercepts TLS only the machine knows the proxy's certificate.
readonly MACHINE_CERTIFICATES=/etc/ssl/certs/ca-certificates.crt

ensure_image() {
  local image found='' autobuild_is_off
  image=$(setting SANDBOXD_IMAGE)
  if found=$(engine_get "images/$image/json"); then
    if image_is_current "$image" "$found"; then return; fi
    say "$image was built from another Dockerfile than this checkout's"
  fi
  autobuild_is_off=$(setting SANDBOXD_DISABLE_AUTOBUILD)
  if [[ ${autobuild_is_off,,} =~ ^(1|true|yes|on)$ && -n $found ]]; then
    warn "SANDBOXD_DISABLE_AUTOBUILD forbids building it anew. To do it anyway: make image"
    return
  fi
  [[ ! ${autobuild_is_off,,} =~ ^(1|true|yes|on)$ ]] || give_up \
    "the image $image is missing, and SANDBOXD_DISABLE_AUTOBUILD forbids building it. To build it anyway: make image"
  build_image
}

# Whether an image, told as the engine's JSON, was built from this checkout. sandboxd labels what it builds with the
# Dockerfile's checksum (sandboxd/crates/engine/src/image.rs).
image_is_current() {
  local image=$1 json=$2 checksum
  [[ $image == "$DEFAULT_IMAGE" ]] || return 0
  checksum=$(sha256sum sandbox-images/node24/Dockerfile)
  [[ $json == *'"org.opencontainers.image.revision":'*"${checksum%% *}"* ]]
}

build_image() {
  local certificates=()
  ensure_image_tools
  if [[ $(setting SANDBOXD_BUILD_CA) == - && -r $MACHINE_CERTIFICATES ]]; then
    certificates=("SANDBOXD_BUILD_CA=$MACHINE_CERTIFICATES")
  fi
  say "building the sandbox image $(setting SANDBOXD_IMAGE); this takes a few minutes, once"
  env "${certificates[@]}" "${sandboxd:?}" build-image || give_up "the sandbox image could not be built; the lines above say why. To try again: make image"
}

# The same with the docker command alone, while the daemon is still being compiled: the image that sandboxd would build on
# this base. `sandboxd build-image` is the other way.
build_image_on() {
  local base=$1 image=${SANDBOXD_IMAGE:-$DEFAULT_IMAGE} context=$RUN_DIR/sandbox-image certificates checksum
  certificates=$(build_certificates)
  checksum=$(sha256sum sandbox-images/node24/Dockerfile)
  rm -rf -- "$context"
  cp -r -- sandbox-images/node24 "$context"
  [[ -z $certificates ]] || cp -- "$certificates" "$context/build-ca/ca.crt"
  # The caller's umask may be strict.
  chmod -R u=rwX,go=rX "$context"
  BUILDKIT_PROGRESS=plain docker build --build-arg BASE_IMAGE="$base" --force-rm \
    --label "org.opencontainers.image.revision=${checksum%% *}" --tag "$image" "$context" || return
  rm -rf -- "$context"
}

# The file of certificates for the build: that of SANDBOXD_BUILD_CA, as this machine sees it, or this machine's own.
build_certificates() {
  local file=${SANDBOXD_BUILD_CA:-$MACHINE_CERTIFICATES}
  file=${file/#\/etc\/sandboxd\/certs\//docker\/certs\/}
  [[ ! -r $file ]] || echo "$file"
}

# Only a machine that reaches no container registry needs these, and only the build finds out, so it goes on without.
ensure_image_tools() {
  local missing=()
  mapfile -t missing < <(missing_image_tools)
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}" \
    || warn "these packages are needed only where no container registry can be reached; continuing without them"
}

# The packages that make Debian and that this machine lacks, one per line.
missing_image_tools() {
  if ((EUID == 0)); then
    has mmdebstrap || has debootstrap || echo mmdebstrap
  else
    has mmdebstrap || echo mmdebstrap
    has newuidmap || echo uidmap
  fi
  [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || echo debian-archive-keyring
}

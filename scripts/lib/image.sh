# shellcheck shell=bash
# The sandbox image: whether it is current, and building it.
#
# Needs lib/daemon.sh for the settings, lib/engine.sh and lib/packages.sh.

# The name of the project's own image. An image with another name belongs to the operator and is not rebuilt.
readonly DEFAULT_IMAGE=remcochat-sandbox:node24
# The certificate authorities of this machine, at Debian's path. The build reaches PyPI and the npm registry by HTTPS. Behind
# a proxy that intercepts TLS, only the machine has the proxy's certificate.
readonly MACHINE_CERTIFICATES=/etc/ssl/certs/ca-certificates.crt

ensure_image() {
  local image found='' autobuild_is_off
  image=$(setting SANDBOXD_IMAGE)
  if found=$(engine_get "images/$image/json"); then
    if image_is_current "$image" "$found"; then return; fi
    say "$image was built from a different Dockerfile"
  fi
  autobuild_is_off=$(setting SANDBOXD_DISABLE_AUTOBUILD)
  if [[ ${autobuild_is_off,,} =~ ^(1|true|yes|on)$ && -n $found ]]; then
    [[ -z ${CI-} ]] || give_up "SANDBOXD_DISABLE_AUTOBUILD is set, so the image cannot be rebuilt, and CI tests no old image."
    warn "SANDBOXD_DISABLE_AUTOBUILD is set, so it is not rebuilt. To rebuild it: make image"
    return
  fi
  [[ ! ${autobuild_is_off,,} =~ ^(1|true|yes|on)$ ]] || give_up \
    "the image $image is missing, and SANDBOXD_DISABLE_AUTOBUILD is set. To build it: make image"
  build_image
}

# Whether an image was built from this checkout, by the engine's JSON description of it. sandboxd labels its images with the
# checksum of the Dockerfile (sandboxd/crates/engine/src/image.rs).
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
  say "building the sandbox image $(setting SANDBOXD_IMAGE); the first build takes a few minutes"
  env "${certificates[@]}" "${sandboxd:?}" build-image || give_up "the sandbox image could not be built; see the lines above. To try again: make image"
}

# Builds the image on this base with the docker command, while the daemon is still being compiled. The result is the same as
# that of `sandboxd build-image`.
build_image_on() {
  local base=$1 image=${SANDBOXD_IMAGE:-$DEFAULT_IMAGE} context=$RUN_DIR/sandbox-image certificates checksum
  certificates=$(build_certificates)
  checksum=$(sha256sum sandbox-images/node24/Dockerfile)
  rm -rf -- "$context"
  cp -r -- sandbox-images/node24 "$context"
  [[ -z $certificates ]] || cp -- "$certificates" "$context/build-ca/ca.crt"
  # The files are readable in the image even if the caller's umask is strict.
  chmod -R u=rwX,go=rX "$context"
  BUILDKIT_PROGRESS=plain docker build --build-arg BASE_IMAGE="$base" --force-rm \
    --label "org.opencontainers.image.revision=${checksum%% *}" --tag "$image" "$context" || return
  rm -rf -- "$context"
}

# Prints the certificate file for the build: SANDBOXD_BUILD_CA, with its path on this machine, or this machine's own file.
build_certificates() {
  local file=${SANDBOXD_BUILD_CA:-$MACHINE_CERTIFICATES}
  file=${file/#\/etc\/sandboxd\/certs\//docker\/certs\/}
  [[ ! -r $file ]] || echo "$file"
}

# Only a machine without access to a container registry needs these packages, and only the build detects that. So a failed
# installation is not an error.
ensure_image_tools() {
  local missing=()
  mapfile -t missing < <(missing_image_tools)
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}" \
    || warn "these packages are needed only if no container registry can be reached; continuing without them"
}

# The missing packages for building a Debian base image, one per line.
missing_image_tools() {
  if ((EUID == 0)); then
    has mmdebstrap || has debootstrap || echo mmdebstrap
  else
    has mmdebstrap || echo mmdebstrap
    has newuidmap || echo uidmap
  fi
  [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || echo debian-archive-keyring
}

# shellcheck shell=bash
# The sandbox image: whether the engine has it, and building it.
#
# Needs lib/daemon.sh for the settings, lib/engine.sh and lib/packages.sh.

ensure_image() {
  local image autobuild_is_off
  image=$(setting SANDBOXD_IMAGE)
  if engine_get "images/$image/json" >/dev/null; then return; fi
  autobuild_is_off=$(setting SANDBOXD_DISABLE_AUTOBUILD)
  [[ ! ${autobuild_is_off,,} =~ ^(1|true|yes|on)$ ]] || give_up \
    "the image $image is missing, and SANDBOXD_DISABLE_AUTOBUILD forbids building it. To build it anyway: make image"
  build_image
}

build_image() {
  ensure_image_tools
  say "building the sandbox image $(setting SANDBOXD_IMAGE); this takes a few minutes, once"
  "${sandboxd:?}" build-image || give_up "the sandbox image could not be built; the lines above say why. To try again: make image"
}

# Only a machine that reaches no container registry needs these, and only the build finds out, so it goes on without.
ensure_image_tools() {
  local missing=()
  if ((EUID == 0)); then
    has debootstrap || missing+=(debootstrap)
  else
    has mmdebstrap || missing+=(mmdebstrap uidmap)
  fi
  [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || missing+=(debian-archive-keyring)
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}" \
    || warn "going on; they are needed only where no container registry can be reached"
}

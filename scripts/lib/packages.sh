# shellcheck shell=bash
# Installs missing packages of the distribution, if this user is allowed to.
#
# Note: no installed package is ever removed. If apt would remove one, the installation fails and the user decides.
# Recommended packages are not installed; a script that needs one names it.

readonly PACKAGES_LOG=$RUN_DIR/packages.log

can_be_root() {
  ((EUID == 0)) && return
  has sudo || return 1
  sudo -n true 2>/dev/null || [[ -t 0 ]]
}

as_root() {
  if ((EUID == 0)); then
    "$@"
  else
    sudo "$@"
  fi
}

# Installs packages. If that is not possible, prints the command to run and fails.
install_packages() {
  local advice="Run as root: apt-get install $*"
  if ! has apt-get; then
    warn "this machine has no apt-get. Install the equivalents of these Debian packages: $*"
    return 1
  fi
  if ! can_be_root; then
    warn "packages are missing, and this user is not root and has no sudo. $advice"
    return 1
  fi
  refresh_package_lists
  say "  installing $*"
  # On a new machine, automatic upgrades often hold the lock for a while.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=180 \
    install --quiet --yes --no-install-recommends --no-remove "$@" >>"$PACKAGES_LOG" 2>&1 || {
    tail -n 10 "$PACKAGES_LOG" >&2
    warn "apt-get could not install these packages: $*. Log: $PWD/$PACKAGES_LOG. $advice"
    return 1
  }
}

# Installs packages without dependencies from the backports of this Debian release. The backports are configured for this call
# only: the machine's own package sources and lists do not change.
install_from_backports() {
  local suite apt_dir status=0
  has apt-get && can_be_root || return 1
  # shellcheck disable=SC1091 # the machine's
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME-backports")
  say "installing $* from $suite"
  apt_dir=$(mktemp --directory)
  # apt downloads as its own user.
  chmod 755 "$apt_dir"
  mkdir -p "$apt_dir"/{sources,lists/partial,cache/archives/partial}
  printf '%s\n' 'Types: deb' "URIs: ${DEBIAN_MIRROR:-http://deb.debian.org/debian}" "Suites: $suite" 'Components: main' \
    'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg' >"$apt_dir/sources/backports.sources"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get --quiet --option DPkg::Lock::Timeout=180
    --option Dir::Etc::sourcelist=/dev/null --option "Dir::Etc::sourceparts=$apt_dir/sources"
    --option "Dir::State::lists=$apt_dir/lists" --option "Dir::Cache=$apt_dir/cache")
  as_root "${apt[@]}" update && as_root "${apt[@]}" install --yes --no-install-recommends --no-remove --target-release "$suite" "$@" \
    || status=1
  as_root rm -rf -- "$apt_dir"
  return "$status"
}

refresh_package_lists() {
  [[ -z ${package_lists_are_fresh-} ]] || return 0
  # Also valid for the script after its restart with the engine's group.
  export package_lists_are_fresh=yes
  make_run_dir
  say "  refreshing the package lists"
  as_root apt-get --option DPkg::Lock::Timeout=180 update --quiet >"$PACKAGES_LOG" 2>&1 \
    || warn "not all package lists could be refreshed (see $PWD/$PACKAGES_LOG); continuing with the existing ones"
}

# Whether the distribution offers the package.
offers_package() {
  has apt-cache && [[ $(apt-cache policy "$1") == *Candidate:\ [!\(]* ]]
}

# Installs the tools that every target needs: for downloads, a linker, and a static C library for the agent.
ensure_build_tools() {
  local missing=()
  mapfile -t missing < <(missing_download_tools && missing_compiler)
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}" || exit 1
}

# The missing packages for downloads, one per line.
missing_download_tools() {
  has curl || echo curl
  compgen -G '/etc/ssl/certs/*' >/dev/null || echo ca-certificates
}

missing_compiler() {
  has cc && [[ -e $(cc -print-file-name=libc.a) ]] || echo build-essential
}

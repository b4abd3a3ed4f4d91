# shellcheck shell=bash
# Installs what is missing from the distribution, where this user may.
#
# What may surprise: nothing installed is ever removed to make room; where apt would do that, the person decides. And
# packages that are only recommended stay out, so whoever needs one names it.

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

# Fails, after saying what to type, where the packages cannot be installed.
install_packages() {
  local advice="Type, as root: apt-get install $*"
  if ! has apt-get; then
    warn "this machine has no apt-get. Install what these Debian packages hold: $*"
    return 1
  fi
  if ! can_be_root; then
    warn "packages are missing, and this user can become root neither directly nor by sudo. $advice"
    return 1
  fi
  refresh_package_lists
  say "  installing $*"
  # On a machine that has just been set up, its own upgrades often hold the lock for a while.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=180 \
    install --quiet --yes --no-install-recommends --no-remove "$@" >>"$PACKAGES_LOG" 2>&1 || {
    tail -n 10 "$PACKAGES_LOG" >&2
    warn "apt-get could not install all of this; its log is $PWD/$PACKAGES_LOG. $advice"
    return 1
  }
}

# Installs packages that need no others, from the backports of this Debian release, which only this call uses: the
# machine's own sources and lists of packages stay as they are.
install_from_backports() {
  local suite place status=0
  has apt-get && can_be_root || return 1
  # shellcheck disable=SC1091 # the machine's
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME-backports")
  say "installing $* from $suite"
  place=$(mktemp --directory)
  # apt fetches as a user of its own.
  chmod 755 "$place"
  mkdir -p "$place"/{sources,lists/partial,cache/archives/partial}
  printf '%s\n' 'Types: deb' "URIs: ${DEBIAN_MIRROR:-http://deb.debian.org/debian}" "Suites: $suite" 'Components: main' \
    'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg' >"$place/sources/backports.sources"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get --quiet --option DPkg::Lock::Timeout=180
    --option Dir::Etc::sourcelist=/dev/null --option "Dir::Etc::sourceparts=$place/sources"
    --option "Dir::State::lists=$place/lists" --option "Dir::Cache=$place/cache")
  as_root "${apt[@]}" update && as_root "${apt[@]}" install --yes --no-install-recommends --no-remove --target-release "$suite" "$@" \
    || status=1
  as_root rm -rf -- "$place"
  return "$status"
}

refresh_package_lists() {
  [[ -z ${package_lists_are_fresh-} ]] || return 0
  # Also for the script started over with the engine's group.
  export package_lists_are_fresh=yes
  make_run_dir
  say "  refreshing the package lists"
  as_root apt-get --option DPkg::Lock::Timeout=180 update --quiet >"$PACKAGES_LOG" 2>&1 \
    || warn "the package lists could not all be refreshed ($PWD/$PACKAGES_LOG); trying with what is there"
}

# Whether the distribution has the package.
offers_package() {
  has apt-cache && [[ $(apt-cache policy "$1") == *Candidate:\ [!\(]* ]]
}

# What every target needs: to download, to link, and to link the agent statically.
ensure_build_tools() {
  local missing=()
  mapfile -t missing < <(missing_download_tools && missing_compiler)
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}" || exit 1
}

# The packages that downloads need and this machine lacks, one per line.
missing_download_tools() {
  has curl || echo curl
  compgen -G '/etc/ssl/certs/*' >/dev/null || echo ca-certificates
}

missing_compiler() {
  has cc && [[ -e $(cc -print-file-name=libc.a) ]] || echo build-essential
}

# shellcheck shell=bash
# Builds and checks the chat's page.
#
# npm is only run if the list of packages has changed since the last time, so a second build needs no network.

readonly PAGE=chat/web

# Whether there is what builds pages, now or after it was installed.
ensure_page_tools() {
  has npm || install_packages nodejs npm || return 1
  local version
  version=$(node -p 'process.versions.node')
  if [[ $(printf '%s\n' 20.19.0 "$version" | sort -V | head -n 1) != 20.19.0 ]]; then
    warn "the chat's page is built with Node 20.19 or newer, and this is $version"
    return 1
  fi
}

install_page_packages() {
  local stamp=$PAGE/node_modules/.stamp
  cmp --silent "$PAGE/package-lock.json" "$stamp" && return
  npm --prefix "$PAGE" ci --no-audit --no-fund --no-update-notifier || return
  cp -- "$PAGE/package-lock.json" "$stamp"
}

# A page that is built anew makes cargo compile the chat anew, so it is only built if what it is built from has changed.
build_page() {
  local stamp=$PAGE/node_modules/.built-from sources
  # The callers ask for the status, and then bash does not end at the first failure.
  install_page_packages || return
  sources=$(page_sources) || return
  [[ -e $PAGE/dist/index.html && -e $stamp && $(<"$stamp") == "$sources" ]] && return
  rm -f -- "$stamp"
  npm --prefix "$PAGE" run --silent build || return
  printf '%s\n' "$sources" >"$stamp"
}

# A checksum of every file that the page is built from, and of their names.
page_sources() {
  (cd -- "$PAGE" && find . \( -path ./node_modules -o -path ./dist -o -path ./shots \) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum) \
    | sha256sum
}

check_page() {
  local step
  install_page_packages
  # Its own build may be of other sources than the last one for the chat.
  rm -f -- "$PAGE/node_modules/.built-from"
  for step in check lint test build smoke; do
    say "the page: $step"
    npm --prefix "$PAGE" run --silent "$step"
  done
}

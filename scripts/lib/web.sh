# shellcheck shell=bash
# Builds and checks the chat's page.
#
# npm is only run if the list of packages has changed since the last time, so a second build needs no network.

readonly PAGE=chat/web
# What the packages of the page ask for.
readonly PAGE_NODE=20.19.0
# Node of our own, where the machine has none or an old one.
readonly OWN_NODE=$RUN_DIR/node

# Whether there is what builds pages, now or after it was fetched.
ensure_page_tools() {
  if has_page_tools; then return; fi
  PATH=$PWD/$OWN_NODE/bin:$PATH
  if has_page_tools; then return; fi
  make_run_dir
  say "fetching Node for the chat's page into $PWD/$OWN_NODE"
  MAKE_BASE_DOWNLOADS=$PWD/$RUN_DIR/downloads sandbox-images/make-base --node "$OWN_NODE" || return
  has_page_tools
}

has_page_tools() {
  has npm && has node && node_is_new_enough
}

node_is_new_enough() {
  local version
  version=$(node -p 'process.versions.node') \
    && [[ $(printf '%s\n' "$PAGE_NODE" "$version" | sort -V | head -n 1) == "$PAGE_NODE" ]]
}

install_page_packages() {
  local stamp=$PAGE/node_modules/.stamp
  cmp --silent "$PAGE/package-lock.json" "$stamp" && return
  # Node trusts the authorities that it was built with; behind a proxy that intercepts TLS, only the machine's do.
  NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt} \
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

# shellcheck shell=bash
# Builds and checks the chat's page.
#
# npm runs only if the list of packages has changed since the last run, so a second build needs no network.

readonly PAGE=chat/web
# The version of Node that the packages of the page need.
readonly PAGE_NODE=20.19.0
# A copy of Node for machines that have none or an older one.
readonly OWN_NODE=$RUN_DIR/node

# Makes sure that Node and npm are available. Downloads Node if necessary.
ensure_page_tools() {
  if has_page_tools; then return; fi
  PATH=$PWD/$OWN_NODE/bin:$PATH
  if has_page_tools; then return; fi
  make_run_dir
  say "downloading Node for the chat's page into $PWD/$OWN_NODE"
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
  # Node trusts its built-in certificate authorities. Behind a proxy that intercepts TLS, only the machine's authorities work.
  NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt} \
    npm --prefix "$PAGE" ci --fetch-retries 5 --no-audit --no-fund --no-update-notifier || return
  cp -- "$PAGE/package-lock.json" "$stamp"
}

# Builds the page if one of its source files has changed. A rebuilt page makes cargo recompile the chat.
build_page() {
  local stamp=$PAGE/node_modules/.built-from sources
  # The callers check the status, so bash does not end the function at the first failure.
  install_page_packages || return
  sources=$(page_sources) || return
  [[ -e $PAGE/dist/index.html && -e $stamp && $(<"$stamp") == "$sources" ]] && return
  rm -f -- "$stamp"
  npm --prefix "$PAGE" run --silent build || return
  printf '%s\n' "$sources" >"$stamp"
}

# Prints a checksum of the names and contents of all files that the page is built from.
page_sources() {
  (cd -- "$PAGE" && find . \( -path ./node_modules -o -path ./dist -o -path ./shots \) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum) \
    | sha256sum
}

check_page() {
  local step
  install_page_packages
  # This build may have other sources than the last build for the chat.
  rm -f -- "$PAGE/node_modules/.built-from"
  for step in check lint test build smoke; do
    say "the page: $step"
    npm --prefix "$PAGE" run --silent "$step"
  done
}

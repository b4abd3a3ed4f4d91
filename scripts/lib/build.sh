# shellcheck shell=bash
# Builds the programs.
#
# What may surprise: cargo chooses the features of the dependencies by the packages named, so they are named for more than
# what is built. With other features it would compile most dependencies again. The chat comes alone and last, because its
# TLS, which sandboxd does without, takes a minute.

# So that both share one build of their dependencies.
readonly DAEMON_PACKAGES=(-p sandbox-agent -p sandboxd)

build_agent() {
  build_release "${DAEMON_PACKAGES[@]}" --bin sandbox-agent
  place_agent
}

build_daemon() {
  build_release "${DAEMON_PACKAGES[@]}" --bin sandbox-agent --bin sandboxd
  place_agent
}

build_chat() {
  build_release "${DAEMON_PACKAGES[@]}" -p chat --bin chat
}

build_release() {
  RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/lib/rustc-static-agent cargo build --release "$@"
}

# Where the tests look for it, and beside the daemon of the tests. A plain `cargo build` never writes to the first.
place_agent() {
  local target place
  target=$(target_dir)
  for place in agent debug; do
    install_when_changed "$target/release/sandbox-agent" "$target/$place/sandbox-agent"
  done
}

# Without the tools for its page the chat is built all the same, and says that it has none. Needs lib/web.sh.
build_web() {
  if ensure_page_tools; then
    build_page || give_up "the chat's page could not be built; the lines above say why"
  else
    warn "the chat is built without its page"
  fi
}

# Renamed into place, so that a daemon that starts meanwhile never reads half a program.
install_when_changed() {
  if cmp --silent "$1" "$2"; then return; fi
  mkdir -p "$(dirname "$2")"
  cp -- "$1" "$2.new"
  mv -- "$2.new" "$2"
}

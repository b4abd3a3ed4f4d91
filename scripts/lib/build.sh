# shellcheck shell=bash
# Builds the programs.
#
# Note: cargo unifies the features of dependencies over the packages that are named. All builds therefore name the same
# packages, even if they build fewer. With other features, cargo would compile most dependencies again. The chat is built
# separately and last, so that sandboxd can be used meanwhile.

# Naming all makes them share one build of their dependencies.
readonly DAEMON_PACKAGES=(-p sandbox-agent -p sandboxd -p volume-plugin)

build_agent() {
  build_release "${DAEMON_PACKAGES[@]}" --bin sandbox-agent --bin sandboxd-volumes
  install_agent
}

build_daemon() {
  build_release "${DAEMON_PACKAGES[@]}" --bin sandbox-agent --bin sandboxd --bin sandboxd-volumes
  install_agent
}

build_chat() {
  build_release "${DAEMON_PACKAGES[@]}" -p chat --bin chat
}

build_release() {
  RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/lib/rustc-static-agent cargo build --release "$@"
}

# Copies the agent to the directory where the tests look for it, and to the directory of the tests' daemon. A plain
# `cargo build` never writes to the first one. The daemon looks for the volume plugin beside the agent.
install_agent() {
  local target directory
  target=$(target_dir)
  for directory in agent debug; do
    install_when_changed "$target/release/sandbox-agent" "$target/$directory/sandbox-agent"
    install_when_changed "$target/release/sandboxd-volumes" "$target/$directory/sandboxd-volumes"
  done
}

# Builds the chat's page. If the tools for it are missing, the chat is built without a page and reports that. Needs lib/web.sh.
build_web() {
  if ensure_page_tools; then
    build_page || give_up "the chat's page could not be built; see the lines above"
  else
    warn "the chat is built without its page"
  fi
}

# Renames the copy into place, so that a daemon that starts at that moment never reads half a program.
install_when_changed() {
  if cmp --silent "$1" "$2"; then return; fi
  mkdir -p "$(dirname "$2")"
  cp -- "$1" "$2.new"
  mv -- "$2.new" "$2"
}

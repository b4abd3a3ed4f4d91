# shellcheck shell=bash
# Builds the programs.
#
# Note: cargo unifies the features of dependencies over the packages that are named. All builds therefore name the same
# packages, even if they build fewer programs. With other features, cargo would compile most dependencies again, and with
# them sandboxd. The chat is built separately and last, so that sandboxd can be used meanwhile.

# Naming all makes them share one build of their dependencies.
readonly PACKAGES=(-p sandbox-agent -p sandboxd -p volume-plugin -p chat)

build_agent() {
  build_release "${PACKAGES[@]}" --bin sandbox-agent --bin sandboxd-volumes
  install_agent
}

build_daemon() {
  build_release "${PACKAGES[@]}" --bin sandbox-agent --bin sandboxd --bin sandboxd-volumes
  install_agent
}

# Builds a slower daemon in less time: the crates that belong to it alone are not optimized. The agent and the other
# dependencies are those of `build_daemon`, which compiles only these crates again.
build_daemon_quickly() {
  local agent_crates crate quick=()
  agent_crates=$(cargo tree --quiet -p sandbox-agent --edges normal --prefix none --format '{p}' | cut -d ' ' -f 1)
  while read -r crate; do
    grep --quiet --line-regexp --fixed-strings -- "$crate" <<<"$agent_crates" \
      || quick+=(--config "profile.release.package.$crate.opt-level=0")
  done < <(printf '%s\n' sandboxd libsqlite3-sys rmcp && sed -n 's/^\([a-z0-9-]*\) = { path = .*/\1/p' Cargo.toml)
  build_release "${quick[@]}" "${PACKAGES[@]}" --bin sandbox-agent --bin sandboxd --bin sandboxd-volumes
  install_agent
}

# Builds the chat, and the daemon again if it is not optimized yet.
build_chat() {
  build_release "${PACKAGES[@]}" --bin sandbox-agent --bin sandboxd --bin sandboxd-volumes --bin chat
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

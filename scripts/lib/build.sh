# shellcheck shell=bash
# Builds the programs.
#
# What may surprise: the agent is built for a named target even where that is this machine's own, because only then do
# the flags of a static program not reach build scripts and macros, which cannot be static.

build_agent() {
  local triple target built place
  triple=$(rustc -vV | sed -n 's/^host: //p')
  target=$(target_dir)
  # The other variable would win over this one.
  env -u CARGO_ENCODED_RUSTFLAGS RUSTFLAGS="${RUSTFLAGS-} -C target-feature=+crt-static" \
    cargo build -p sandbox-agent --profile agent --target "$triple"
  built=$target/$triple/agent/sandbox-agent
  # Beside the daemon, where it looks for it; the daemon of the tests is a debug build.
  for place in release debug; do
    install_when_changed "$built" "$target/$place/sandbox-agent"
  done
}

build_daemon() {
  cargo build --release -p sandboxd
}

# The daemon and the chat, after the page, which is in it. Both at once: one after the other, cargo would build what they share twice.
build_daemon_and_chat() {
  cargo build --release -p sandboxd -p chat
}

# Without the tools for its page the chat is built all the same, and says that it has none. Needs lib/web.sh.
build_web() {
  if ensure_page_tools; then
    build_page || give_up "the chat's page could not be built; the lines above say why"
  else
    warn "going on without the chat's page"
  fi
}

# Renamed into place, so that a daemon that starts meanwhile never reads half a program.
install_when_changed() {
  if cmp --silent "$1" "$2"; then return; fi
  mkdir -p "$(dirname "$2")"
  cp -- "$1" "$2.new"
  mv -- "$2.new" "$2"
}

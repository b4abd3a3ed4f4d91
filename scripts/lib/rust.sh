# shellcheck shell=bash
# The Rust toolchain: there, and new enough for `rust-version` of Cargo.toml.

# For machines whose distribution has no rustup. The checksums are those beside each file on static.rust-lang.org.
readonly RUSTUP_VERSION=1.29.0
readonly RUSTUP_SHA256_X64=4acc9acc76d5079515b46346a485974457b5a79893cfb01112423c89aeb5aa10
readonly RUSTUP_SHA256_ARM64=9732d6c5e2a098d3521fca8145d826ae0aaa067ef2385ead08e6feac88fa5792

# Rust or rustup, which installs it. This may ask for a password; `ensure_rust` after it does not.
ensure_rust_or_rustup() {
  if rust_is "$(wanted_rust)"; then return; fi
  # rustup writes this directory into the profile, which only the next login reads.
  [[ ! -x ~/.cargo/bin/cargo ]] || PATH=$HOME/.cargo/bin:$PATH
  if rust_is "$(wanted_rust)"; then return; fi
  has rustup || install_rustup || give_up "Rust $(wanted_rust) or newer is needed, and here is $(rust_that_is_there). Type:
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
and then \`make\` again."
}

ensure_rust() {
  local wanted
  wanted=$(wanted_rust)
  ensure_rust_or_rustup
  if rust_is "$wanted"; then return; fi
  # Whatever the person's default toolchain is, it stays; this run takes another one.
  export RUSTUP_TOOLCHAIN=stable
  # An older rustup that is merely asked for a version installs the whole toolchain, and in silence.
  if [[ $(rustup toolchain list) != *stable-* ]] || ! rust_is "$wanted"; then
    say "installing the stable Rust toolchain"
    rustup toolchain install stable --profile minimal \
      || give_up "rustup could not install the stable toolchain. Type: rustup toolchain install stable"
  fi
  # So that cargo works by hand too.
  env -u RUSTUP_TOOLCHAIN rustup default >/dev/null 2>&1 || rustup default stable
  rust_is "$wanted" || give_up "Rust $wanted or newer is needed, and here is $(rust_that_is_there)."
}

wanted_rust() {
  sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml
}

# Whether rustc is there in this version or a newer one.
rust_is() {
  local found
  has cargo && found=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
  [[ -n $found && $(printf '%s\n' "$1" "${found%%-*}" | sort --version-sort | head -n 1) == "$1" ]]
}

rust_that_is_there() {
  local found
  found=$(rustc --version 2>/dev/null) || true
  echo "${found:-none}"
}

# From the distribution where it has one, and otherwise from rust-lang.org, below this user's home.
install_rustup() {
  if can_be_root; then
    refresh_package_lists
    if offers_package rustup && install_packages rustup; then return; fi
  fi
  fetch_rustup
}

fetch_rustup() {
  local triple sha256 file
  case $(uname -m) in
    x86_64) triple=x86_64-unknown-linux-gnu sha256=$RUSTUP_SHA256_X64 ;;
    aarch64) triple=aarch64-unknown-linux-gnu sha256=$RUSTUP_SHA256_ARM64 ;;
    *) return 1 ;;
  esac
  say "  installing rustup $RUSTUP_VERSION in $HOME/.cargo"
  file=$(mktemp "${TMPDIR:-/tmp}/rustup-init.XXXXXXXX")
  if curl --fail --silent --show-error --location --retry 3 --proto '=https' --output "$file" \
    "https://static.rust-lang.org/rustup/archive/$RUSTUP_VERSION/$triple/rustup-init" \
    && echo "$sha256  $file" | sha256sum --check --quiet; then
    # It tells what it is by its name.
    chmod u+x "$file"
    (exec -a rustup-init "$file" -y --quiet --no-modify-path --default-toolchain none --profile minimal) >>"$PACKAGES_LOG" 2>&1 || true
  fi
  rm -f -- "$file"
  PATH=$HOME/.cargo/bin:$PATH
  has rustup
}

# The minimal profile leaves these out, and only the tests ask for them.
ensure_rust_checkers() {
  if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then return; fi
  has rustup || give_up "cargo fmt and cargo clippy are missing. Install your Rust's rustfmt and clippy."
  rustup component add rustfmt clippy || give_up "Type: rustup component add rustfmt clippy"
}

# Fails where there is none and none can be built; `cargo test` stands in for it then.
ensure_nextest() {
  if cargo nextest --version >/dev/null 2>&1; then return; fi
  say "installing cargo-nextest, once; this takes some minutes"
  cargo install --quiet --locked cargo-nextest
}

# The version that is installed if there is none. One that is there may be any other.
readonly CARGO_DENY_VERSION=0.20.2

# Fails where there is none and none can be built. A debug build takes a minute instead of several, and checks this
# workspace in seconds all the same.
ensure_cargo_deny() {
  if cargo deny --version >/dev/null 2>&1; then return; fi
  say "installing cargo-deny $CARGO_DENY_VERSION, once; this takes a minute or two"
  CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --version "$CARGO_DENY_VERSION" cargo-deny
}

# Where cargo puts what it builds.
target_dir() {
  cargo metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

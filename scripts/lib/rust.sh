# shellcheck shell=bash
# Makes sure that there is a Rust toolchain, at least the `rust-version` of Cargo.toml.

# For machines whose distribution has no rustup. The checksums come from static.rust-lang.org, next to each file.
readonly RUSTUP_VERSION=1.29.0
readonly RUSTUP_SHA256_X64=4acc9acc76d5079515b46346a485974457b5a79893cfb01112423c89aeb5aa10
readonly RUSTUP_SHA256_ARM64=9732d6c5e2a098d3521fca8145d826ae0aaa067ef2385ead08e6feac88fa5792

# Makes sure that there is Rust, or rustup to install it. This may ask for a password; a later `ensure_rust` does not.
ensure_rust_or_rustup() {
  if rust_is "$(wanted_rust)"; then return; fi
  # rustup adds this directory to the profile, which takes effect only at the next login.
  [[ ! -x ~/.cargo/bin/cargo ]] || PATH=$HOME/.cargo/bin:$PATH
  if rust_is "$(wanted_rust)"; then return; fi
  has rustup || install_rustup || give_up "Rust $(wanted_rust) or newer is needed, found: $(found_rust). Run:
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
and then \`make\` again."
}

ensure_rust() {
  local wanted
  wanted=$(wanted_rust)
  ensure_rust_or_rustup
  if rust_is "$wanted"; then return; fi
  # The user's default toolchain does not change; only this run uses another one.
  export RUSTUP_TOOLCHAIN=stable
  # With an older rustup, `rustc --version` would install the whole toolchain without any output.
  if [[ $(rustup toolchain list) != *stable-* ]] || ! rust_is "$wanted"; then
    say "installing the stable Rust toolchain"
    rustup toolchain install stable --profile minimal \
      || give_up "rustup could not install the stable toolchain. Run: rustup toolchain install stable"
  fi
  # Sets a default toolchain if there is none, so that the user can run cargo too.
  env -u RUSTUP_TOOLCHAIN rustup default >/dev/null 2>&1 || rustup default stable
  rust_is "$wanted" || give_up "Rust $wanted or newer is needed, found: $(found_rust)."
}

wanted_rust() {
  sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml
}

# Whether cargo exists, and rustc in this version or a newer one.
rust_is() {
  local found
  has cargo && found=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
  [[ -n $found && $(printf '%s\n' "$1" "${found%%-*}" | sort --version-sort | head -n 1) == "$1" ]]
}

found_rust() {
  local found
  found=$(rustc --version 2>/dev/null) || true
  echo "${found:-none}"
}

# Installs rustup from the distribution if it has one, otherwise from rust-lang.org into this user's home.
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
    # The program acts as the installer only under this name.
    chmod u+x "$file"
    (exec -a rustup-init "$file" -y --quiet --no-modify-path --default-toolchain none --profile minimal) >>"$PACKAGES_LOG" 2>&1 || true
  fi
  rm -f -- "$file"
  PATH=$HOME/.cargo/bin:$PATH
  has rustup
}

# The minimal profile does not have these components. Only the tests need them.
ensure_rust_checkers() {
  if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then return; fi
  has rustup || give_up "cargo fmt and cargo clippy are missing. Install your Rust's rustfmt and clippy."
  rustup component add rustfmt clippy || give_up "rustup could not install rustfmt and clippy. Run: rustup component add rustfmt clippy"
}

# Fails if cargo-nextest is missing and cannot be built. The caller then uses `cargo test`.
ensure_nextest() {
  if cargo nextest --version >/dev/null 2>&1; then return; fi
  say "installing cargo-nextest; this happens once and takes some minutes"
  # It mostly waits for tests, so a debug build is as fast, and compiles in a fraction of the time.
  CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug cargo-nextest
}

# Runs tests of the whole workspace. A story waits for half of its time, for containers and for time limits, so two of them at
# a time for each processor take a third less than one.
run_nextest() {
  NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$((2 * $(nproc)))} cargo nextest run --workspace "$@"
}

# The version to install if there is none. An installed one may have any version.
readonly CARGO_DENY_VERSION=0.20.2

# Fails if cargo-deny is missing and cannot be built. A debug build takes one minute instead of several, and still checks this
# workspace in seconds.
ensure_cargo_deny() {
  if cargo deny --version >/dev/null 2>&1; then return; fi
  say "installing cargo-deny $CARGO_DENY_VERSION; this happens once and takes a minute or two"
  CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --version "$CARGO_DENY_VERSION" cargo-deny
}

# Prints cargo's target directory.
target_dir() {
  cargo metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

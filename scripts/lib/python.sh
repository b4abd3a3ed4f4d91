# shellcheck shell=bash
# Virtual environments with programs from PyPI that only tests need.
#
# Needs lib/packages.sh and lib/rust.sh.

# The installer of the packages.
readonly UV=uv==0.13.9

# Creates a virtual environment with what a requirements file lists, or recreates it if other versions are needed. Fails if
# that is not possible.
ensure_venv() {
  local venv=$1 wanted=$2
  if cmp --silent "$wanted" "$venv/requirements.txt"; then return; fi
  ensure_python_venv || return 1
  say "installing $(tr '\n' ' ' <"$wanted")into $venv, once"
  rm -rf -- "$venv"
  python3 -m venv "$venv" \
    && install_in "$venv" --requirement "$wanted" \
    && cp -- "$wanted" "$venv/requirements.txt"
}

ensure_python_venv() {
  python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3 python3-venv
}

# Installs packages of PyPI in a virtual environment. uv takes a tenth of the time that pip takes.
install_in() {
  "$1/bin/pip" install --quiet --disable-pip-version-check "$UV" \
    && "$1/bin/uv" pip install --quiet --system-certs --python "$1/bin/python" "${@:2}"
}

# An S3 server for the tests of remote stores. crates/test-s3 starts it from there.
ensure_s3_server() {
  ensure_venv "$(target_dir)/s3-venv" scripts/s3/requirements.txt
}

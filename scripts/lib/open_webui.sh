# shellcheck shell=bash
# A whole Open WebUI from PyPI, for stories in its page.
#
# Needs lib/packages.sh, lib/python.sh, lib/rust.sh and lib/stages.sh.

# The version in sandboxd/tests/stories/surfaces/open_terminal_client.rs.
readonly OPEN_WEBUI=open-webui==0.12.4

# Its libraries for models on this machine: several gigabytes that it starts without.
readonly OPEN_WEBUI_LOCAL_MODELS='accelerate einops faster-whisper opencv-python-headless rapidocr sentence-transformers
  sentencepiece transformers'

# Installs it in a virtual environment, once. Fails if that is not possible.
ensure_open_webui() {
  local venv
  venv=$(open_webui_venv)
  if [[ $(cat "$venv/installed" 2>/dev/null) == "$OPEN_WEBUI" ]]; then return; fi
  ensure_python_venv || return 1
  say "installing $OPEN_WEBUI into $venv, once"
  rm -rf -- "$venv"
  python3 -m venv "$venv" \
    && install_in "$venv" --no-deps "$OPEN_WEBUI" \
    && open_webui_requirements "$venv" >"$venv/requirements.txt" \
    && install_in "$venv" --requirement "$venv/requirements.txt" \
    && echo "$OPEN_WEBUI" >"$venv/installed"
}

open_webui_venv() {
  echo "$(target_dir)/open-webui-venv"
}

# What its package requires, without the local models and without extras.
open_webui_requirements() {
  # shellcheck disable=SC2086 # a list of names
  "$1/bin/python" -c '
import importlib.metadata, re, sys
for requirement in importlib.metadata.requires("open-webui"):
    if "extra ==" not in requirement and re.match("[A-Za-z0-9_.-]+", requirement)[0] not in sys.argv[1:]:
        print(requirement)' $OPEN_WEBUI_LOCAL_MODELS
}

# A stage of a test run. It reports its own counts.
run_open_webui_stories() {
  local report=target/nextest/open-webui/junit.xml status=0
  rm -f -- "$report"
  # For the whole workspace, because `make test` has built them that way.
  SANDBOXD_TEST_OPEN_WEBUI=$(open_webui_venv)/bin/open-webui run_nextest --test stories --profile open-webui \
    --filterset 'package(sandboxd) & test(/^open_webui::/)' || status=$?
  if ((status == 0)) || [[ -e $report ]]; then count_junit "$report"; fi
  return "$status"
}

# shellcheck shell=bash
# Other programs that run commands for an agent. `make bench RIVALS=1` installs them and measures them beside sandboxd.

# Debian's packages are installed on the machine, the others below target/.
ensure_rivals() {
  local rivals
  rivals=$(target_dir)/bench/rivals
  { has bwrap && has podman; } || install_packages bubblewrap crun podman || return 1
  mkdir -p "$rivals"
  ensure_venv "$rivals/venv" scripts/rivals/requirements.txt || return 1
  if cmp --silent scripts/rivals/package-lock.json "$rivals/node_modules/package-lock.json"; then return; fi
  ensure_page_tools || return 1
  say "installing just-bash and bash-tool into $rivals, once"
  cp -- scripts/rivals/package.json scripts/rivals/package-lock.json "$rivals/"
  # Without scripts of packages: the only one compiles a decompressor of xz.
  npm --prefix "$rivals" ci --ignore-scripts --fetch-retries 5 --no-audit --no-fund --no-update-notifier || return
  cp -- scripts/rivals/package-lock.json "$rivals/node_modules/"
}

# shellcheck shell=bash
# The checkout's directories and settings, and the functions that print messages.
#
# Note: sourcing this file changes into the checkout and reads its `.env`. STACK_ENV_FILE names another file to read instead.

# The script that was called. Scripts that restart themselves need it.
this_script=$(realpath -- "$0")
readonly this_script
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." || exit

# dockerd and debootstrap are in sbin, which is often not on an ordinary user's PATH.
PATH=$PATH:/usr/sbin:/sbin

readonly ENV_FILE=${STACK_ENV_FILE:-.env}

# Files that the scripts keep between runs: logs, process ids, test reports.
readonly RUN_DIR=.run

say() {
  printf '%s\n' "$*"
}

warn() {
  printf 'note: %s\n' "$*" >&2
}

# Prints an error and ends the script. The first line says what is wrong, the other lines say what to do.
give_up() {
  printf '\nerror: %s\n' "$*" >&2
  exit 1
}

has() {
  command -v "$1" >/dev/null 2>&1
}

# Closes the descriptors that the scripts open. A process that outlives the script calls it, so that a pipe from the script
# ends with the script.
close_own_descriptors() {
  local descriptor
  for descriptor in "${terminal-}" "${lock-}"; do
    [[ -z $descriptor ]] || exec {descriptor}>&-
  done
}

# Repeats a command until it succeeds. Fails after this number of seconds.
succeeds_within() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

# The logs contain session keys, so other users cannot read the directory.
make_run_dir() {
  (umask 077 && mkdir -p "$RUN_DIR")
  [[ -O $RUN_DIR && -w $RUN_DIR ]] || give_up "$PWD/$RUN_DIR belongs to another user, who ran \`make\` here before.
Run \`make down\` as that user, then: sudo rm -r $PWD/$RUN_DIR"
}

# Reads the file as docker compose does, without running it. A variable that is already set takes precedence over the file.
read_env_file() {
  local line name value
  [[ -r $ENV_FILE ]] || return 0
  while IFS= read -r line || [[ -n $line ]]; do
    [[ ${line%$'\r'} =~ ^[[:space:]]*(export[[:space:]]+)?([A-Za-z_][A-Za-z0-9_]*)=[[:space:]]*(.*)$ ]] || continue
    name=${BASH_REMATCH[2]} value=${BASH_REMATCH[3]}
    case $value in
      \"*\"*) value=${value#\"} value=${value%%\"*} ;;
      \'*\'*) value=${value#\'} value=${value%%\'*} ;;
      *)
        value=${value%%[[:space:]]#*}
        value=${value%"${value##*[![:space:]]}"}
        ;;
    esac
    if [[ ! -v $name ]]; then
      export "$name=$value"
      names_from_env_file+=("$name")
    fi
  done <"$ENV_FILE"
}

names_from_env_file=()
read_env_file

came_from_env_file() {
  [[ " ${names_from_env_file[*]-} " == *" $1 "* ]]
}

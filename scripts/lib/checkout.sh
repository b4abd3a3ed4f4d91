# shellcheck shell=bash
# Where the checkout keeps its things, its settings, and how the scripts speak to a person.
#
# What may surprise: sourcing this file changes into the checkout and reads its `.env`, or the file that STACK_ENV_FILE names
# in its place.

# The script that was called, for those that start over.
this_script=$(realpath -- "$0")
readonly this_script
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." || exit

# dockerd and debootstrap live in sbin, which an ordinary user's PATH often lacks.
PATH=$PATH:/usr/sbin:/sbin

readonly ENV_FILE=${STACK_ENV_FILE:-.env}

# What the scripts keep between two runs: logs, process ids, test reports.
readonly RUN_DIR=.run

say() {
  printf '%s\n' "$*"
}

warn() {
  printf 'note: %s\n' "$*" >&2
}

# Ends the script. The first line says what is wrong, the others what to do about it.
give_up() {
  printf '\nerror: %s\n' "$*" >&2
  exit 1
}

has() {
  command -v "$1" >/dev/null 2>&1
}

# Calls a command until it succeeds, for so many seconds.
holds_within() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

# The log shows session keys, so the directory is nobody else's.
make_run_dir() {
  (umask 077 && mkdir -p "$RUN_DIR")
  [[ -O $RUN_DIR && -w $RUN_DIR ]] || give_up "$PWD/$RUN_DIR belongs to another user, who ran \`make\` here before.
Run \`make down\` as that user, then: sudo rm -r $PWD/$RUN_DIR"
}

# The file is read as docker compose reads it, not run: a variable that is set already wins over it.
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

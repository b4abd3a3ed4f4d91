# shellcheck shell=bash
# What is on the engine, and what is there now that was not there before.
#
# What may surprise: nearly whatever appeared counts, ours or not, because a volume without a name or a label is the
# likeliest leak and nothing would tell it as ours. Only what belongs to a daemon that had something there before is
# left out: the tests' daemons are all new ones.

# Removals that were asked for may still be under way.
readonly SETTLE_SECONDS=15

# One line each: kind, id, name, and the instance of the daemon that made it.
engine_objects() {
  local instance='{{or (.Label "sandboxd.instance") "-"}}'
  docker ps --all --no-trunc --format "container {{.ID}} {{.Names}} $instance"
  docker volume ls --format "volume {{.Name}} {{.Name}} $instance"
  docker network ls --no-trunc --format "network {{.ID}} {{.Name}} $instance"
  loop_devices
}

# The loop devices with a workspace's disk. Whose it is, its volume says, as long as there is one.
loop_devices() {
  local owners file disk device
  # A volume of another daemon may go between the two looks.
  owners=$(docker volume ls --quiet --filter label=sandboxd.instance \
    | xargs --no-run-if-empty docker volume inspect \
      --format '{{index .Options "device"}} {{index .Labels "sandboxd.instance"}}' 2>/dev/null) || true
  for file in /sys/block/loop*/loop/backing_file; do
    disk=$(sed 's/ (deleted)$//' "$file" 2>/dev/null) || continue
    [[ $disk == */dsk_*.img ]] || continue
    disk=$(basename "$disk" .img)
    device=${file#/sys/block/}
    awk -v disk="$disk" -v device="/dev/${device%%/*}" '
      $1 ~ "/" disk "[.]dev$" { owner = $2 }
      END { print "loop", disk, device, owner ? owner : "-" }' <<<"$owners"
  done
}

# Lists what appeared since the list in this file was made.
appeared_since() {
  awk 'NR == FNR { known[$2]; if ($4 != "-") others[$4]; next }
    !($2 in known) && !($4 in others)' "$1" <(engine_objects)
}

# Fails, and names it, where something appeared and stays.
check_for_leaks() {
  local before=$1 leaked
  remove_unused_agent_volumes "$before"
  if holds_within "$SETTLE_SECONDS" nothing_appeared_since "$before"; then
    say "no container, volume, network or loop device was left behind"
    return
  fi
  leaked=$(appeared_since "$before")
  say "left behind on the engine:"
  say_objects "$leaked"
  return 1
}

nothing_appeared_since() {
  [[ -z $(appeared_since "$1") ]]
}

say_objects() {
  cut -d ' ' -f 1,3 <<<"$1"
  say "Unless another program made it meanwhile, remove it:"
  awk '
    $1 == "container" { print "  docker rm --force --volumes " $3 }
    $1 == "volume" { print "  docker volume rm " $3 }
    $1 == "network" { print "  docker network rm " $3 }
    $1 == "loop" { print "  losetup --detach " $3 }' <<<"$1"
}

# The agent's program stays on the engine in one volume for each of its versions. Those in the list are left alone: a
# daemon without a sandbox uses its volume only with the next one.
remove_unused_agent_volumes() {
  local before=${1:-/dev/null} volume
  for volume in $(docker volume ls --quiet --filter dangling=true --filter name=sandboxd-agent-); do
    if [[ $volume == sandboxd-agent-* ]] && ! grep -qF "volume $volume " "$before"; then
      docker volume rm "$volume" >/dev/null || true
    fi
  done
}

# Removes what a daemon of a test has on the engine, and tells whether that was all.
remove_instance() {
  local label=label=sandboxd.instance=$1
  docker ps --all --quiet --filter "$label" | xargs --no-run-if-empty docker rm --force --volumes >/dev/null 2>&1
  docker volume ls --quiet --filter "$label" | xargs --no-run-if-empty docker volume rm >/dev/null 2>&1
  docker network ls --quiet --filter "$label" | xargs --no-run-if-empty docker network rm >/dev/null 2>&1
  [[ -z $(docker ps --all --quiet --filter "$label")$(docker volume ls --quiet --filter "$label") ]]
}

# shellcheck shell=bash
# Lists the objects on the engine and finds leaked ones: objects that were created since an earlier list.
#
# Note: nearly every new object counts, whether or not the project created it. The most likely leak is a volume without a name
# or a label, which nothing identifies as the project's. Only objects of a daemon that had objects before are skipped: the
# daemons of the tests are always new.

# Removals may still be in progress.
readonly SETTLE_SECONDS=15

# Prints one line per object: kind, id, name, and the instance of the daemon that created it.
engine_objects() {
  local instance='{{or (.Label "sandboxd.instance") "-"}}'
  docker ps --all --no-trunc --format "container {{.ID}} {{.Names}} $instance"
  docker volume ls --format "volume {{.Name}} {{.Name}} $instance"
  docker network ls --no-trunc --format "network {{.ID}} {{.Name}} $instance"
  docker plugin ls --no-trunc --format 'plugin {{.ID}} {{.Name}} -'
  loop_devices
}

# Prints the loop devices of workspace disks. The disk's volume names the owner, as long as the volume exists.
loop_devices() {
  local owners file disk device
  # A volume of another daemon may be removed between the two commands.
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

# Lists the objects that were created after the list in this file.
appeared_since() {
  awk 'NR == FNR { known[$2]; if ($4 != "-") others[$4]; next }
    !($2 in known) && !($4 in others)' "$1" <(engine_objects)
}

# Fails and names the objects if new objects remain.
check_for_leaks() {
  local before=$1 leaked
  remove_unused_agent_volumes "$before"
  if succeeds_within "$SETTLE_SECONDS" nothing_appeared_since "$before"; then
    say "no container, volume, network, plugin or loop device is left over"
    return
  fi
  leaked=$(appeared_since "$before")
  say "left over on the engine:"
  say_objects "$leaked"
  return 1
}

nothing_appeared_since() {
  [[ -z $(appeared_since "$1") ]]
}

say_objects() {
  cut -d ' ' -f 1,3 <<<"$1"
  say "Unless another program created these objects meanwhile, remove them:"
  awk '
    $1 == "container" { print "  docker rm --force --volumes " $3 }
    $1 == "volume" { print "  docker volume rm " $3 }
    $1 == "network" { print "  docker network rm " $3 }
    $1 == "plugin" { print "  docker plugin rm --force " $3 }
    $1 == "loop" { print "  losetup --detach " $3 }' <<<"$1"
}

# Removes unused volumes with the agent's program, of which the engine keeps one for each version. Volumes in the list are
# kept: a daemon without sandboxes uses its volume again for the next sandbox.
remove_unused_agent_volumes() {
  local before=${1:-/dev/null} volume
  for volume in $(docker volume ls --quiet --filter dangling=true --filter name=sandboxd-agent-); do
    if [[ $volume == sandboxd-agent-* ]] && ! grep -qF "volume $volume " "$before"; then
      docker volume rm "$volume" >/dev/null || true
    fi
  done
}

# Removes the objects of a test's daemon from the engine. Fails if some remain.
remove_instance() {
  local label=label=sandboxd.instance=$1
  docker ps --all --quiet --filter "$label" | xargs --no-run-if-empty docker rm --force --volumes >/dev/null 2>&1
  docker volume ls --quiet --filter "$label" | xargs --no-run-if-empty docker volume rm >/dev/null 2>&1
  docker network ls --quiet --filter "$label" | xargs --no-run-if-empty docker network rm >/dev/null 2>&1
  [[ -z $(docker ps --all --quiet --filter "$label")$(docker volume ls --quiet --filter "$label") ]]
}

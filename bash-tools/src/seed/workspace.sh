# The state of a seed in the workspace, and how it gets there. Included before each script of a seed.
#
#   .remcochat/seeded    The seed is complete, or the workspace had files before. Its line is the seed's fingerprint.
#   .remcochat/seeding   The seed was being moved into the workspace. If `seeded` is missing, that was interrupted.
#   .remcochat/seed.*    Seeds that are not moved yet, and leftovers of interrupted ones.
#   .remcochat/lock      Locked during changes to any of these.
#
# Standard output is for the caller, one line each. Git's own messages go to standard error.
# Cloning does not use programs that the model has put on the path of its commands.
PATH=/usr/local/bin:/usr/bin:/bin
shopt -s nullglob dotglob
seeded=.remcochat/seeded seeding=.remcochat/seeding

look() {
  local entry
  if [ -e "$seeded" ]; then echo 'done'; return; fi
  if [ -e "$seeding" ]; then echo partly; return; fi
  for entry in *; do
    if [ "$entry" != .remcochat ]; then echo occupied; return; fi
  done
  echo fresh
}

# Without flock, two apps may seed concurrently. One of them may fail, and its next attempt finds the seed.
lock() {
  mkdir -p .remcochat || exit 1
  exec 9>.remcochat/lock
  if command -v flock >/dev/null; then flock 9; fi
}

# Takes the lock, and ends the script if there is nothing to seed.
begin() {
  local state
  lock
  state=$(look)
  case $state in
    occupied) echo occupied >"$seeded" || exit 1 ;;
    done) ;;
    *) return ;;
  esac
  rm -rf .remcochat/seed.*
  echo "$state"
  exit
}

# Moves the contents of a directory into the workspace. Leftovers of an earlier attempt are replaced, because no one has
# worked there yet. A `.remcochat` of the seed is not moved, because that name is taken.
settle() {
  local entry name
  [ -d "$1" ] || exit 1
  printf '%s\n' "$SEED_MARK" >"$seeding" || exit 1
  for entry in "$1"/*; do
    name=${entry##*/}
    if [ "$name" = .remcochat ]; then continue; fi
    rm -rf -- "./$name" && mv -- "$entry" "./$name" || exit 1
  done
  mv -- "$seeding" "$seeded" || exit 1
  rm -rf .remcochat/seed.*
  echo 'done'
}

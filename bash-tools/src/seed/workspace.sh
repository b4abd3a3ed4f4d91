# What of a seed is in the workspace, and how it gets there. Comes before each script of a seed.
#
#   .remcochat/seeded    It is there, or somebody's work was there before it. Its line is the seed's fingerprint.
#   .remcochat/seeding   It was being put in place. Where `seeded` is not, somebody was stopped in the middle.
#   .remcochat/seed.*    Seeds that wait to be put in place, and what is left of such.
#   .remcochat/lock      Held by who changes any of these.
#
# What is told to who runs it goes to standard output, a line each; git's own words go to standard error.
# What the model has put on the path of its commands is not asked to clone.
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

# Where there is no flock, two apps at once plant the same twice: one of them may fail by it, and its next try finds the seed.
lock() {
  mkdir -p .remcochat || exit 1
  exec 9>.remcochat/lock
  if command -v flock >/dev/null; then flock 9; fi
}

# Takes the lock, and ends the script where nothing is to be planted any more.
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

# Puts what is in a directory into the workspace. What a try before this one has left is replaced, because nobody has worked
# there yet. `.remcochat` of a seed stays where it is: that name is taken.
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

# shellcheck shell=bash
# What is on the engine, and what is there now that was not there before.
#
# What may surprise: whatever appeared counts, ours or not. A volume without a name or a label is the likeliest leak, and
# nothing would tell it as ours.

# Removals that were asked for may still be under way.
readonly SETTLE_SECONDS=15

engine_objects() {
  {
    docker ps --all --no-trunc --format 'container {{.ID}} {{.Names}}'
    docker volume ls --format 'volume {{.Name}}'
    docker network ls --no-trunc --format 'network {{.ID}} {{.Name}}'
  } | sort
}

# Prints what appeared since the list in this file was made.
appeared_since() {
  comm -13 "$1" <(engine_objects)
}

# Fails, and names it, where something appeared and stays.
check_for_leaks() {
  local before=$1 leaked
  remove_unused_agent_volumes "$before"
  if holds_within "$SETTLE_SECONDS" nothing_appeared_since "$before"; then
    say "no container, volume or network was left behind"
    return
  fi
  leaked=$(appeared_since "$before")
  say "left behind on the engine (unless another program made it meanwhile):"
  say "$leaked"
  say_how_to_remove "$leaked"
  return 1
}

nothing_appeared_since() {
  [[ -z $(appeared_since "$1") ]]
}

say_how_to_remove() {
  say "To remove it:"
  sed -n 's/^container \(\S*\) .*/  docker rm --force --volumes \1/p' <<<"$1"
  sed -n 's/^volume \(.*\)/  docker volume rm \1/p' <<<"$1"
  sed -n 's/^network \(\S*\) .*/  docker network rm \1/p' <<<"$1"
}

# The agent's program stays on the engine in one volume for each of its versions. Those in the list are left alone: a
# daemon without a sandbox uses its volume only with the next one.
remove_unused_agent_volumes() {
  local before=${1:-/dev/null} volume
  for volume in $(docker volume ls --quiet --filter dangling=true --filter name=sandboxd-agent-); do
    if [[ $volume == sandboxd-agent-* ]] && ! grep -qxF "volume $volume" "$before"; then
      docker volume rm "$volume" >/dev/null || true
    fi
  done
}

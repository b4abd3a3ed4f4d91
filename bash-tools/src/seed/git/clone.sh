# Clones into a separate directory, so that a failed clone leaves nothing in the workspace, and an interrupted one needs no
# repair. URL and revision are passed as variables and have been checked.
begin
rm -rf .remcochat/seed.*

in_stage() { git -C "$SEED_STAGE" "$@"; }
fetch() { in_stage fetch --progress --no-tags --no-recurse-submodules --no-auto-gc "$@"; }
fail() { echo "fail $1"; exit 1; }

# The kernel ends a fetch exactly at the limit, because the pack is a single file. The checkout is measured before it.
# Ignored, the signal becomes an error that git reports.
trap '' XFSZ
ulimit -f "$SEED_MAX_KIB" || exit 1

git init -q --template= -- "$SEED_STAGE" && in_stage remote add -- origin "$SEED_URL" || exit 1

echo "step looking at the repository"
revision=$SEED_REVISION branch='' ref='' commit=''
if [ -z "$revision" ]; then wanted=(HEAD); else wanted=("refs/heads/$revision" "refs/tags/$revision" "$revision"); fi
listing=$(in_stage ls-remote --symref -- origin "${wanted[@]}") || exit 1
listed() {
  local left name
  while IFS=$'\t' read -r left name; do
    if [ "$name" = "$1" ]; then return; fi
  done <<<"$listing"
  return 1
}
if [ -z "$revision" ]; then
  listed HEAD || fail empty
  while IFS=$'\t' read -r left name; do
    if [ "$name" = HEAD ] && [[ $left == "ref: refs/heads/"* ]]; then branch=${left#ref: refs/heads/}; fi
  done <<<"$listing"
  ref=HEAD
elif listed "refs/heads/$revision"; then
  branch=$revision
elif listed "refs/tags/$revision"; then
  ref=refs/tags/$revision
elif [[ $revision == refs/* ]] && listed "$revision"; then
  ref=$revision
elif ! [[ $revision =~ ^[0-9a-fA-F]{7,64}$ ]]; then
  fail revision
fi

echo "step fetching"
everything() {
  fetch -- origin '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*' || exit 1
  commit=$(in_stage rev-parse --verify --quiet "$revision^{commit}") || fail revision
}
if [ -n "$branch" ]; then
  fetch --depth=1 -- origin "+refs/heads/$branch:refs/remotes/origin/$branch" || exit 1
  commit=$(in_stage rev-parse --verify "refs/remotes/origin/$branch^{commit}") || exit 1
elif [ -n "$ref" ]; then
  case $ref in refs/tags/*) refspec=+$ref:$ref ;; *) refspec=$ref ;; esac
  fetch --depth=1 -- origin "$refspec" || exit 1
  commit=$(in_stage rev-parse --verify 'FETCH_HEAD^{commit}') || exit 1
elif [ ${#revision} = 40 ] || [ ${#revision} = 64 ]; then
  fetch_errors=$SEED_STAGE/.git/fetch_errors
  fetch --depth=1 -- origin "$revision" 2>&1 >/dev/null | tee "$fetch_errors" >&2
  if [ "${PIPESTATUS[0]}" = 0 ]; then
    commit=$revision
  elif grep -q 'not our ref' "$fetch_errors"; then
    fail revision
  elif grep -q 'unadvertised object' "$fetch_errors"; then
    # Some servers only serve named revisions. The commit may be reachable from one.
    echo "step fetching everything, because the server gives no single commits"
    everything
  else
    exit 1
  fi
else
  # No server accepts an abbreviated commit.
  everything
fi

in_stage ls-tree -r -l --full-tree "$commit" | awk '
  { files++; if ($4 != "-") bytes += $4 }
  bytes > ENVIRON["SEED_MAX_BYTES"] + 0 || files > ENVIRON["SEED_MAX_FILES"] + 0 { exit 3 }'
statuses=("${PIPESTATUS[@]}")
if [ "${statuses[1]}" = 3 ]; then fail large; fi
if [ "${statuses[*]}" != '0 0' ]; then exit 1; fi

echo "step checking out"
if [ -n "$branch" ]; then
  in_stage checkout -q --progress -f -B "$branch" "refs/remotes/origin/$branch" -- >&2 || exit 1
else
  in_stage checkout -q --progress -f --detach "$commit" -- >&2 || exit 1
fi
# Files that do not belong to the repository are excluded from its commits.
mkdir -p "$SEED_STAGE/.git/info" && echo /.remcochat/ >>"$SEED_STAGE/.git/info/exclude" || exit 1
rm -f "$SEED_STAGE/.git/fetch_errors"

settle "$SEED_STAGE"

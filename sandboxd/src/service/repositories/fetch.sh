# Fetches the commit COMMIT from RELAY into the empty working directory. ORIGIN is recorded as its remote.
# With ARCHIVE, there is no RELAY: the objects are in the archive at that address. Then COMMIT may be a tag, and the commit is
# printed.
# Nothing of the repository is executed: no hooks, no filters, no file system monitor, no helpers, no submodules.
set -euo pipefail
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=/bin/false GIT_LFS_SKIP_SMUDGE=1
fetching=(
  -c core.hooksPath=/dev/null -c core.fsmonitor=false -c credential.helper= -c submodule.recurse=false
  -c protocol.allow=never -c protocol.http.allow=always -c http.followRedirects=false
  -c http.proxy="$PROXY" -c gc.auto=0 -c maintenance.auto=false -c advice.detachedHead=false
)
from=${RELAY:-} objects=''
if [[ -n "${ARCHIVE:-}" ]]; then
  # The archive has objects only, so no configuration and no hook of the directory exists here.
  objects=$(mktemp -d "$PWD/.objects.XXXXXX")
  git "${fetching[@]}" init --quiet --bare --template= "$objects"
  git -C "$objects" config uploadpack.allowAnySHA1InWant true
  curl --silent --show-error --fail --proxy "$PROXY" "$ARCHIVE" | tar --extract --directory "$objects"
  from=file://$objects
  fetching+=(-c protocol.file.allow=always)
fi
git "${fetching[@]}" init --quiet --template= .
git "${fetching[@]}" fetch --quiet --depth=1 --no-tags --no-recurse-submodules "$from" "$COMMIT" || exit 3
fetched=$(git "${fetching[@]}" rev-parse --verify 'FETCH_HEAD^{commit}') || exit 3
if [[ -n "$objects" ]]; then
  rm -rf "$objects"
  echo "commit $fetched"
else
  [[ "$fetched" == "$COMMIT" ]] || exit 3
  git remote add origin "$ORIGIN"
fi
git "${fetching[@]}" checkout --quiet --detach --no-recurse-submodules "$fetched"
# Every copy has other inodes and times of change. Otherwise git would read all files again.
git config core.checkStat minimal
git config core.trustctime false
rm -rf .git/FETCH_HEAD .git/ORIG_HEAD .git/logs
missing() { [[ "$(head -c 1)" == '' ]] || echo "$1"; }
{ git ls-files --stage | grep '^160000 ' || true; } | missing submodules
{ git ls-files -- ':(attr:filter=lfs)' || true; } | missing lfs

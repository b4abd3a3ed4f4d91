# Completes a new workspace that the provider has created with the files of the repository, so that it looks like a clone. Only
# the app that has created the sandbox runs this. SEED_BRANCH is the branch of the files, and empty if they are of something else.
here() { git -C "$PWD" "$@"; }
fail() { echo "fail $1"; exit 1; }

# The provider may have ignored the repository.
if [ -L .git ] || ! [ -d .git ]; then look; exit; fi
commit=$(here rev-parse --verify --quiet 'HEAD^{commit}') || exit 1

# This name is taken. A clone does not put the repository's own files there either.
here ls-files -z -- .remcochat | xargs -0 -r rm -f -- || exit 1
lock
if [ -e "$seeded" ] && [ "$(cat "$seeded")" != occupied ]; then echo 'done'; exit; fi

here ls-tree -r -l --full-tree "$commit" | awk '
  { files++; if ($4 != "-") bytes += $4 }
  bytes > ENVIRON["SEED_MAX_BYTES"] + 0 || files > ENVIRON["SEED_MAX_FILES"] + 0 { exit 3 }'
statuses=("${PIPESTATUS[@]}")
if [ "${statuses[1]}" = 3 ]; then fail large; fi
if [ "${statuses[*]}" != '0 0' ]; then exit 1; fi

branch=$SEED_BRANCH name=$SEED_REVISION
if [ -z "$branch" ] && [ -n "$name" ] && ! [[ $name == refs/* || $name =~ ^[0-9a-fA-F]{7,64}$ ]]; then
  here update-ref "refs/tags/$name" "$commit" || exit 1
fi
here remote set-url origin "$SEED_URL" || exit 1
if [ -n "$branch" ]; then
  here update-ref "refs/remotes/origin/$branch" "$commit" || exit 1
  here checkout -q -B "$branch" "refs/remotes/origin/$branch" -- >&2 || exit 1
fi
mkdir -p .git/info && echo /.remcochat/ >>.git/info/exclude || exit 1
printf '%s\n' "$SEED_MARK" >"$seeded" || exit 1
rm -rf .remcochat/seed.*
echo 'done'

# Resolves REQUIREMENTS from the index at RELAY, and unpacks the wheels into the set KEY. If BUILDS is empty, no code of a package
# is executed: wheels are only unpacked, and source code is not accepted. Otherwise wheels are built from it. The relay
# offers it only for packages without a wheel.
set -euo pipefail
own=/vercel/sandbox/.local
set=$own/share/packages/$KEY
requirements=$TMPDIR/requirements.txt log=$TMPDIR/uv.log
printf '%s' "$REQUIREMENTS" > "$requirements"
unset NO_PROXY no_proxy ALL_PROXY all_proxy
export HTTP_PROXY=http://127.0.0.1:13128 http_proxy=http://127.0.0.1:13128 UV_HTTP_TIMEOUT=60 UV_HTTP_RETRIES=2
accepted=(--only-binary :all:)
[[ -z $BUILDS ]] || accepted=()
uv pip install --quiet --no-config --no-cache --no-progress --color never --python /usr/bin/python3 --no-python-downloads \
  "${accepted[@]}" --index-url "$RELAY" --target "$set" --compile-bytecode --requirements "$requirements" 2> "$log" || {
    # The end of a build says why it has failed.
    tail -c 1000 "$log" >&2
    exit 3
  }
# Every Python of the user sees the set, after what the user installs. Its .pth files are read, as those of an installed package.
site=$(python3 -c 'import site; print(site.getusersitepackages())')
mkdir -p "$site" "$own/bin"
echo "import site; site.addsitedir('$set')" > "$site/sandbox-packages.pth"
for script in "$set"/bin/*; do
  [[ ! -f $script ]] || ln -sf "../share/packages/$KEY/bin/${script##*/}" "$own/bin/"
done
: > "$set.complete"
rm -rf "$requirements" "$log" "$own/cache" "$own/config"

# Lists the directory $SANDBOX_PATH, from entry $SANDBOX_FROM on, at most $SANDBOX_COUNT entries: type, length, time of
# change and name of each, with a NUL after each. Uses only programs that every Linux has, because images differ.
cd -- "$SANDBOX_PATH" 2>/dev/null || exit 44
shopt -s nullglob dotglob
names=(*)
names=("${names[@]:SANDBOX_FROM:SANDBOX_COUNT}")
((${#names[@]})) && command stat --printf '%f %s %Y %n\0' -- "${names[@]}"
exit 0

# What is in the directory $SANDBOX_PATH, from entry $SANDBOX_FROM on, $SANDBOX_COUNT at most: of each what it is, its length, when it
# changed and its name, with a NUL behind each. Only what every Linux has, because images differ.
cd -- "$SANDBOX_PATH" 2>/dev/null || exit 44
shopt -s nullglob dotglob
names=(*)
names=("${names[@]:SANDBOX_FROM:SANDBOX_COUNT}")
((${#names[@]})) && command stat --printf '%f %s %Y %n\0' -- "${names[@]}"
exit 0

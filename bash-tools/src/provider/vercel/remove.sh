# Removes $SANDBOX_PATH with everything beneath it.
[[ -e $SANDBOX_PATH || -L $SANDBOX_PATH ]] || exit 44
command rm -rf -- "$SANDBOX_PATH"

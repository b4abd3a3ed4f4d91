# Removes what is at $SANDBOX_PATH, with all that is beneath.
[[ -e $SANDBOX_PATH || -L $SANDBOX_PATH ]] || exit 44
command rm -rf -- "$SANDBOX_PATH"

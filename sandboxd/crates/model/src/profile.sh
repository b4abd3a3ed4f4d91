# Gives a login shell the PATH it was started with. /etc/profile sets one for the whole system, so that what npm and
# pip install for the sandbox's user would not be found, nor what a caller put on the PATH. The kernel still shows the
# environment that the shell was started with. Written for every POSIX shell: this is read by sh, dash and bash.
if [ -n "${BASH_VERSION-}" ] && [ -r "/proc/$$/environ" ]; then
  # Without a subprocess: this runs for each command.
  while IFS= read -r -d '' sandbox_entry; do
    case $sandbox_entry in
      PATH=*) PATH=${sandbox_entry#PATH=} ;;
    esac
  done < "/proc/$$/environ"
  unset sandbox_entry
elif [ -r "/proc/$$/environ" ]; then
  sandbox_entry=$(sed -zn 's/^PATH=//p' "/proc/$$/environ" 2> /dev/null | tr -d '\000')
  [ -z "$sandbox_entry" ] || PATH=$sandbox_entry
  unset sandbox_entry
fi
export PATH

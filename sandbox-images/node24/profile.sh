# Restores the PATH with which a login shell was started. /etc/profile sets a system-wide PATH, which lacks the programs that
# npm and pip install for the sandbox's user, and the caller's additions. The kernel still has the environment with which the
# shell was started. This file works in every POSIX shell, because sh, dash and bash read it.
if [ -n "${BASH_VERSION-}" ] && [ -r "/proc/$$/environ" ]; then
  # Without a subprocess, because this runs for each command.
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

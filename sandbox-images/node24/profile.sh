# Restores the PATH with which a login shell was started. /etc/profile sets a system-wide PATH, which lacks the programs that
# npm and pip install for the sandbox's user, and the caller's additions. The kernel still has the environment with which the
# shell was started. This file works in every POSIX shell, because sh, dash and bash read it.
if [ "${BASH_VERSINFO:-0}" -ge 5 ] && [ -r "/proc/$$/environ" ]; then
  # Without a subprocess, because this runs for each command, and without `read`, which reads the file again for each variable.
  # Other shells must not see the array.
  eval '
    mapfile -d "" -t sandbox_entries < "/proc/$$/environ"
    for sandbox_entry in "${sandbox_entries[@]}"; do
      case $sandbox_entry in
        PATH=*) PATH=${sandbox_entry#PATH=} ;;
      esac
    done
    unset sandbox_entries sandbox_entry
  '
elif [ -r "/proc/$$/environ" ]; then
  sandbox_entry=$(sed -zn 's/^PATH=//p' "/proc/$$/environ" 2> /dev/null | tr -d '\000')
  [ -z "$sandbox_entry" ] || PATH=$sandbox_entry
  unset sandbox_entry
fi
export PATH

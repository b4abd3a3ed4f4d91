# Unpacks the files of a directory, from the archive at ARCHIVE, into the empty working directory.
set -euo pipefail
curl --silent --show-error --fail --proxy "$PROXY" "$ARCHIVE" | tar --extract

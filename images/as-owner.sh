#!/bin/sh
# c7x-as-owner PROGRAM [ARGUMENT ...]: with C7X_AS_OWNER=1 root becomes the owner of the current folder, for good, and then
# runs the program; everybody else just runs it. Results then belong to whoever owns the folder, although compose cannot
# know the caller. Where the engine is rootless the owner is root, which is the caller.
set -eu

if [ "${C7X_AS_OWNER:-}" = 1 ] && [ "$(id -u)" = 0 ]; then
  owner=$(stat -c %u .)
  if [ "$owner" != 0 ]; then
    exec setpriv --reuid "$owner" --regid "$(stat -c %g .)" --clear-groups "$@"
  fi
fi
exec "$@"

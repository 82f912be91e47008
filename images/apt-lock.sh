#!/usr/bin/env bash
# Holds the Debian packages of the images against images/<name>/apt.lock, which has the exact version of each.
#
#   images/apt-lock.sh            list what differs; exit code 0, since Debian's security updates are wanted
#   images/apt-lock.sh --write    record what is in the images now
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for name in compiler aarch64 board dev; do
  image=c7x-$name
  [[ $name != compiler ]] || image=c7x
  docker image inspect "$image:latest" >/dev/null 2>&1 || continue
  # shellcheck disable=SC2016
  listed=$(docker run --rm --platform "linux/$(docker image inspect --format '{{.Architecture}}' "$image")" --network none --entrypoint dpkg-query "$image:latest" -W \
    -f '${Package}:${Architecture}=${Version}\n' | LC_ALL=C sort)
  lock=images/$name/apt.lock
  if [[ ${1:-} == --write ]]; then
    printf '%s\n' "$listed" >"$lock"
    printf '%s: %d packages\n' "$lock" "$(wc -l <"$lock")"
  else
    diff --unified=0 --label "$lock" --label "$image:latest" "$lock" <(printf '%s\n' "$listed") ||
      printf 'note: %s has other Debian packages than %s\n' "$image:latest" "$lock"
  fi
done

#!/usr/bin/env bash
# Builds everything twice from nothing and compares: `make reproducible`. Fails with the first file that differs.
#
#   images/reproducible.sh [PART ...]     parts: artefacts wheel aarch64 compiler; default: all
#
# Images are built by buildah, which gives every file of a layer the date of the commit, without any layer of an earlier
# build. Zig's own C++ library is kept between the two. C7X is the local command c7x, PYTHON a Python with c7x's
# development packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

c7x=${C7X:-c7x}
python=${PYTHON:-python3}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}
scratch=$(mktemp -d)
containers=()
rows=()
failed=

cleanup() {
  local name
  for name in "${containers[@]}"; do buildah rm "$name" >/dev/null 2>&1 || true; done
  rm -rf "$scratch"
}
trap cleanup EXIT

differing() { # differing FOLDER FOLDER: the first file that differs, or nothing
  diff -rq --no-dereference "$1" "$2" 2>&1 | head -n 1 | sed "s|$1|first|; s|$2|second|" || true
}

compare() { # compare WHAT DIGEST DIGEST FOLDER FOLDER
  local verdict=equal
  if [[ $2 != "$3" ]]; then
    verdict=$(differing "$4" "$5")
    verdict="DIFFERENT: ${verdict:-no file, but modes, dates or the configuration of the image}"
    failed=yes
  fi
  rows+=("$(printf '%-10s %.19s %.19s %s' "$1" "$2" "$3" "$verdict")")
}

digest() { # digest FOLDER: of all names and bytes in it
  (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | sed 's/^/sha256:/; s/ .*//')
}

part_artefacts() {
  local turn
  for turn in 1 2; do
    mkdir -p "$scratch/model$turn/deeper"
    cp images/reproducible/model.py "$scratch/model$turn/deeper"
    (cd "$scratch/model$turn/deeper" && "$c7x" --quiet compile model.py -o "out$turn")
  done
  local first=$scratch/model1/deeper/out1 second=$scratch/model2/deeper/out2
  compare artefacts "$(digest "$first")" "$(digest "$second")" "$first" "$second"
}

part_wheel() {
  local turn
  for turn in 1 2; do
    mkdir -p "$scratch/source$turn/a"
    tar -c --exclude=__pycache__ c7x native pyproject.toml README.md LICENSE | tar -x -C "$scratch/source$turn/a"
    "$python" -m build --wheel --no-isolation --outdir "$scratch/wheel$turn" "$scratch/source$turn/a" \
      >"$scratch/wheel.log" 2>&1 || { cat "$scratch/wheel.log" >&2 && exit 1; }
  done
  compare wheel "$(digest "$scratch/wheel1")" "$(digest "$scratch/wheel2")" "$scratch/wheel1" "$scratch/wheel2"
}

image() { # image NAME IMAGE
  local turn ids=() mounts=() name
  for turn in 1 2; do
    ENGINE=buildah BUILD_ARGS=--no-cache images/build.sh "$1" >"$scratch/$1-$turn.log" 2>&1 || {
      tail -n 30 "$scratch/$1-$turn.log" >&2
      exit 1
    }
    ids+=("sha256:$(buildah inspect --type image --format '{{.FromImageID}}' "$2")")
    name=c7x-reproducible-$1-$turn-$$
    buildah from --pull-never --name "$name" "$2" >/dev/null
    containers+=("$name")
    mounts+=("$(buildah mount "$name")")
  done
  compare "$1" "${ids[0]}" "${ids[1]}" "${mounts[0]}" "${mounts[1]}"
}

part_aarch64() { image aarch64 c7x-aarch64:latest; }

part_compiler() { image compiler c7x:latest; }

(($#)) || set -- artefacts wheel aarch64 compiler
for part in "$@"; do "part_$part"; done
printf '%-10s %-19s %-19s\n' what first second
printf '%s\n' "${rows[@]}"
[[ -z $failed ]]

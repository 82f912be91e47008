#!/bin/bash
# Without arguments: copies the Arm side to /dist, or to the folder C7X_DIST. With arguments: runs them.
set -euo pipefail

if [[ -n ${C7X_AS_OWNER:-} ]]; then exec c7x-as-owner env -u C7X_AS_OWNER "$0" "$@"; fi
if (($#)); then exec "$@"; fi
target=${C7X_DIST:-/dist}
[[ $target == /dist ]] || mkdir -p "$target"
[[ -d $target && -w $target ]] || {
  # shellcheck disable=SC2016
  printf 'error: %s is not a folder that user %s may write to\n  hint: mkdir -p dist, then %s\n' "$target" "$(id -u)" \
    'docker run --rm -v "$PWD/dist:/dist" -u $(id -u):$(id -g) c7x-aarch64' >&2
  exit 4
}
cp -rd --no-preserve=ownership /opt/c7x-arm/dist/. "$target"
cd "$target"
for file in libc7x_arm_runtime.so c7x_compute tvm_ti_c7x_inference-*.whl; do printf 'dist/%s\n' "$file"; done

#!/usr/bin/env bash
# run.sh BUILD SECONDS TARGET: fuzzes one target from the committed corpus. BUILD is a build folder of this one with
# -DC7X_FUZZ=ON. What is found stays in BUILD: inputs of new coverage in found/TARGET, crashers in crashes/.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$1" && pwd) seconds=$2 target=$3
declare -A longest=([elf]=16384)
mkdir -p "$build/found/$target" "$build/crashes"
log=$build/$target.log
cd "$build" # where libFuzzer leaves what else it writes
options=(
  -max_total_time="$seconds" -max_len="${longest[$target]:-4096}" -timeout=20 -rss_limit_mb=4096
  -artifact_prefix="$build/crashes/$target-" -close_fd_mask=2 # the virtual DSP's own log
)
if ! "$build/fuzz_$target" "${options[@]}" "found/$target" "$here/corpus/$target" >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "fuzz_$target found something. Once more: $build/fuzz_$target $build/crashes/$target-..." >&2
  exit 1
fi
printf '%-12s %s\n' "$target" "$(grep -m1 'DONE' "$log" | tr -s '[:space:]' ' ')"

#!/bin/bash
# Cross-builds the Arm side into a folder: /opt/c7x-arm/build.sh FOLDER. Run when the image is built; run it again in a
# container after mounting other sources over /opt/c7x-arm/native.
set -euo pipefail

here=/opt/c7x-arm
target=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# -Werror is for the compilers that the project is developed with.
cmake -S "$here/native/arm" -B "$scratch/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$here/native/cmake/aarch64-zig.cmake" \
  -DC7X_WERROR=OFF -DC7X_ARM_TESTS=ON >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2 && exit 1; }
cmake --build "$scratch/build" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2 && exit 1; }

mkdir -p "$target/include" "$target/tests"
cp -d "$scratch"/build/libc7x_arm_runtime.so* "$scratch/build/c7x_compute" "$target"
cp -r "$here"/native/arm/include/. "$target/include"
find "$scratch/build/tests" -maxdepth 1 -type f -executable -exec cp {} "$target/tests" \;

# The oldest glibc that the wheel runs with is measured, not claimed.
python3 "$here/native/arm/python/build_wheel.py" --build "$scratch/build" --output "$scratch/wheel" \
  --license "$here/LICENSE" --platform manylinux_2_28_aarch64 >/dev/null
auditwheel show "$scratch"/wheel/*.whl | tr '\n' ' ' | grep -q 'consistent with.*manylinux_2_\(17\|2[0-8]\)_aarch64' || {
  auditwheel show "$scratch"/wheel/*.whl >&2
  echo "error: the wheel needs a newer glibc than 2.28" >&2
  exit 1
}
cp "$scratch"/wheel/*.whl "$target"

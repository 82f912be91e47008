#!/bin/bash
# A step of the board image, on the machine that builds: the packages of the target, compiled, in /site; /share is what
# the entry point reads. Nothing here runs on an emulator.
set -euo pipefail

if [[ -s /run/secrets/ca ]]; then export PIP_CERT=/run/secrets/ca; fi
export PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONHASHSEED=0
[[ $TARGETARCH == arm64 ]] || {
  echo "error: the board image is for arm64: PLATFORM=linux/arm64" >&2
  exit 1
}
target=(--target /site --upgrade --no-deps --only-binary :all: --python-version 3.11
  --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64)

pip install -q --no-compile "${target[@]}" --require-hashes -r /source/requirements/run.lock
pip install -q --no-compile "${target[@]}" --no-index /opt/c7x-arm/dist/*.whl

pip install -q --no-compile --require-hashes --no-deps --target /opt/build-backend -r /source/requirements/build.lock
mkdir /tmp/source
(cd /source && cp -r c7x native pyproject.toml README.md LICENSE /tmp/source/)
PYTHONPATH=/opt/build-backend pip wheel -q --no-deps --no-index --no-build-isolation -w /tmp/wheel /tmp/source
pip install -q --no-compile "${target[@]}" --no-index /tmp/wheel/*.whl
rm -f /site/*.dist-info/direct_url.json
find /site -depth -type d -name tests -path '*/numpy/*' -exec rm -rf {} +
python3 -m compileall -qf --invalidation-mode unchecked-hash -s /site -p /usr/local/lib/python3.11/dist-packages /site

mkdir /share
python3 /source/images/commands.py /source/c7x/cli >/share/commands

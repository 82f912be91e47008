#!/usr/bin/env bash
# A step of the compiler image: the locked Python packages and torch, into /opt/c7x.
#   /requirements, /wheels    mounted
#   /run/secrets/ca           certificates for pip, where the network needs its own; nothing of it stays in the image
#   TORCH_INDEX               where torch comes from when /wheels holds none
set -euo pipefail

if [[ -s /run/secrets/ca ]]; then export PIP_CERT=/run/secrets/ca; fi
site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# What builds c7x's wheel stays apart from what runs it.
pip install -q --no-compile --require-hashes --no-deps --target /opt/build-backend -r /requirements/build.lock
pip install -q --no-compile --require-hashes --no-deps -r /requirements/compile.lock
if compgen -G '/wheels/torch-*.whl' >/dev/null; then
  pip install -q --no-compile --no-deps --no-index --find-links /wheels -r /requirements/torch.txt
else
  [[ -n ${TORCH_INDEX:-} ]] || {
    echo "error: there is no torch: give a folder with its wheel (--build-context wheels=FOLDER)" \
      "or an index (--build-arg TORCH_INDEX=URL)" >&2
    exit 1
  }
  pip install -q --no-compile --no-deps --index-url "$TORCH_INDEX" -r /requirements/torch.txt
fi
pip check

# Test programs, headers for C++ extensions, and tests: 200 MB that no compile touches.
find "$site/torch/bin" -mindepth 1 -maxdepth 1 ! -name torch_shm_manager -exec rm -rf {} +
rm -rf "$site"/test "$site"/torch/{test,include} "$site"/torch/lib/{libtorchbind_test.so,libshm_windows}
find "$site"/{numpy,sympy,networkx} -depth -type d -name tests -exec rm -rf {} +

# Compiled once here, not by pip and not at every start, by hash instead of by time, and one after the other: parallel workers
# intern strings in an order of their own, which shows in the bytes.
python -m compileall -qf --invalidation-mode unchecked-hash "$site" >/dev/null || true

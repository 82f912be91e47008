#!/usr/bin/env bash
# A step of the dev image: the locked packages for tests and checks; the installed c7x goes, its command stays.
set -euo pipefail

if [[ -s /run/secrets/ca ]]; then export PIP_CERT=/run/secrets/ca; fi
export PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PYTHONHASHSEED=0
pip install -q --require-hashes --no-deps -r /requirements/dev.lock
pip uninstall -q -y c7x
printf '#!/bin/sh\nexec /opt/c7x/bin/python -m c7x.cli "$@"\n' >/opt/c7x/bin/c7x
chmod +x /opt/c7x/bin/c7x
# What makes the documentation has requirements of its own.
python -m venv --without-pip /opt/docs
pip --python /opt/docs/bin/python install -q --require-hashes --no-deps -r /requirements/docs.lock
ln -s /opt/docs/bin/mkdocs /usr/local/bin/mkdocs

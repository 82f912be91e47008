#!/usr/bin/env bash
# A step of the image with TI's tools: from /ticgt, the installer TICGT_FILE or installed tools, to /opt/ti/cgt.
set -euo pipefail

[[ ${ACCEPT_TI_LICENSE:-} == yes ]] || {
  echo "error: TI's tools are under TI's licence. If you accept it: ACCEPT_TI_LICENSE=yes" >&2
  exit 1
}
mkdir -p /opt/ti
if [[ -n ${TICGT_FILE:-} ]]; then
  # Checks the hash before anything runs, and the tools afterwards.
  XDG_DATA_HOME=/opt/ti c7x toolchain install "/ticgt/$TICGT_FILE" --accept-license --sha256 "$TICGT_SHA256"
  mv "$(XDG_DATA_HOME=/opt/ti c7x toolchain path)" /opt/ti/cgt
  rm -rf /opt/ti/c7x
else
  cp -r /ticgt /opt/ti/cgt
fi
chmod -R a+rX /opt/ti
TI_CGT_C7000_PATH=/opt/ti/cgt c7x toolchain path

#!/usr/bin/env bash
# A step of the compiler image: c7x itself, from /source, its list of commands for the entry point, and the virtual DSP.
set -euo pipefail

site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
share=/usr/local/share/c7x

mkdir /tmp/source
(cd /source && cp -r c7x native pyproject.toml README.md LICENSE /tmp/source/)
PYTHONPATH=/opt/build-backend pip install -q --no-compile --no-deps --no-index --no-build-isolation /tmp/source
# It would record the folder that c7x came from.
rm -f "$site"/c7x-*.dist-info/direct_url.json
python -m compileall -qf --invalidation-mode unchecked-hash "$site/c7x"

mkdir -p "$share"
python /source/images/commands.py /source/c7x/cli >"$share/commands"
sed -n 's/^__version__ = "\(.*\)"$/\1/p' /source/c7x/version.py >"$share/version"
cp /source/images/compiler/wrapper.sh "$share/wrapper.sh"
# The virtual DSP is compiled at its first use; here, once for all users of the image.
XDG_CACHE_HOME=/opt/c7x/share python -c 'from c7x.toolchain.vdsp import server_program; print(server_program())'
rm -rf /tmp/source

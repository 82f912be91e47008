#!/usr/bin/env bash
# Makes the base image c7x-base:bookworm from Debian's packages, for machines that reach no image registry, and loads it.
# Everybody else builds on the official Debian image, which the Dockerfiles name by default.
#
#   images/base/bootstrap.sh [amd64|arm64] [--fresh]
#
# Takes root for mmdebstrap; a foreign architecture takes qemu (images/engine.sh sets it up). The archive stays in
# $C7X_CACHE/images, under a name made from this recipe, and is only loaded the next time; --fresh makes it anew. Equal
# packages give an equal image id, on every machine and in every engine (ENGINE=podman loads it there). What went in is
# listed beside the archive.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

release=bookworm
# 2026-01-01. Newer files get this date, so that the day of the build does not show.
export SOURCE_DATE_EPOCH=1767225600
engine=${ENGINE:-docker}
# buildah and podman share their images.
[[ $engine != buildah ]] || engine=podman
arch=$(dpkg --print-architecture)
fresh=
for argument in "$@"; do
  case $argument in
    amd64 | arm64) arch=$argument ;;
    --fresh) fresh=yes ;;
    *) printf 'usage: images/base/bootstrap.sh [amd64|arm64] [--fresh]\n' >&2 && exit 2 ;;
  esac
done
tag=c7x-base:$release
[[ $arch == "$(dpkg --print-architecture)" ]] || tag+=-$arch

cache=${C7X_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/c7x}/images
recipe=$(cat images/base/bootstrap.sh images/base/archive.py | sha256sum | cut -c 1-12)
archive=$cache/base-$release-$arch-$recipe.tar

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

bootstrap() {
  [[ $EUID == 0 ]] || fail "making a base image takes root. Where a registry can be reached none is needed: make images"
  command -v mmdebstrap >/dev/null || {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap arch-test >/dev/null 2>&1
  }
  local mirror security work
  # The mirrors that this machine already uses.
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $release" | head -n 1)
  security=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $release-security" | head -n 1)
  [[ -n $mirror ]] || fail "apt has no index of Debian $release on this machine; apt-get update, on Debian 12, brings it"
  work=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" EXIT
  local keyring='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
  printf '%s\n' "deb $keyring $mirror $release main" "deb $keyring $mirror $release-updates main" \
    ${security:+"deb $keyring $security $release-security main"} >"$work/sources.list"
  mkdir -p "$cache"
  printf 'making %s (half a minute; another architecture a minute and a half)\n' "$tag" >&2
  mmdebstrap --quiet --variant=minbase --architectures="$arch" \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --aptopt='Acquire::Languages "none"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/info/*' \
    --customize-hook='chroot "$1" dpkg-query -W -f "\${Package}=\${Version}\n" >'"$work/packages" \
    --customize-hook='rm -rf "$1"/var/log/* "$1"/var/cache/ldconfig/aux-cache "$1"/etc/hostname "$1"/etc/resolv.conf' \
    --customize-hook=': >"$1"/etc/machine-id' \
    "$release" "$work/root.tar" "$work/sources.list" >"$work/log" 2>&1 || {
    tail -n 30 "$work/log" >&2
    fail "mmdebstrap could not make the base image"
  }
  python3 images/base/archive.py --rootfs "$work/root.tar" --arch "$arch" --tag "$tag" \
    --created "$SOURCE_DATE_EPOCH" -o "$work/base.tar" >/dev/null
  LC_ALL=C sort "$work/packages" >"$work/packages.sorted"
  rm -f "$cache/base-$release-$arch-"*
  mv "$work/packages.sorted" "${archive%.tar}.packages"
  mv "$work/base.tar" "$archive"
}

[[ -f $archive && -z $fresh ]] || bootstrap
"$engine" load --quiet --input "$archive" >/dev/null
"$engine" image inspect --format '{{.Id}}' "$tag" | sed "s|^|$tag |"

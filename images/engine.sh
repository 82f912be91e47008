#!/usr/bin/env bash
# Makes a container engine run, for machines and CI that have none: `images/engine.sh` as root on Debian 12.
# Does nothing where one runs. Debian 12's own engine (20.10) lacks named build contexts, so four packages come from the
# next release; everything else stays as it is. The engine's log is in $C7X_CACHE/dockerd.log.
#
#   images/engine.sh             start an engine, and let it run arm64 images
#   images/engine.sh --podman    also install podman and buildah
set -euo pipefail

cache=${C7X_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/c7x}
log=$cache/dockerd.log
packages=(docker.io docker-cli docker-buildx docker-compose)
newer=trixie

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

install() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
    fail "apt-get could not install: $*"
}

engine_answers() {
  docker info >/dev/null 2>&1
}

# The mirror that this machine already uses.
mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $1" | head -n 1
}

install_engine() {
  [[ $EUID == 0 ]] || fail "no engine runs, and starting one takes root. Start Docker or podman, or run this as root"
  # shellcheck source=/dev/null
  . /etc/os-release
  [[ ${VERSION_CODENAME:-} == bookworm ]] ||
    fail "no engine runs, and this script knows how to install one on Debian 12 only. Install Docker 23 or newer"
  apt-get update -qq || fail "no package index: is there a network?"
  local uri
  uri=$(mirror bookworm)
  printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$uri" "$newer" \
    >/etc/apt/sources.list.d/c7x-engine.list
  {
    printf 'Package: *\nPin: release n=%s\nPin-Priority: -1\n\n' "$newer"
    printf 'Package: %s\nPin: release n=%s\nPin-Priority: 990\n' "${packages[*]}" "$newer"
  } >/etc/apt/preferences.d/c7x-engine
  apt-get update -qq
  install "${packages[@]}" iptables
}

start_engine() {
  [[ $EUID == 0 ]] || fail "no engine runs, and starting one takes root"
  mkdir -p "$cache"
  # A daemon of its own session: it outlives the shell that starts it. The small MTU passes through any tunnel.
  setsid dockerd --mtu 1400 >"$log" 2>&1 </dev/null &
  for ((tick = 0; tick < 300; tick++)); do
    if engine_answers; then return; fi
    sleep 0.1
  done
  tail -n 20 "$log" >&2
  fail "the engine does not answer after 30 seconds; its log is $log"
}

# The kernel hands arm64 programs to qemu, in containers too: the F flag keeps the emulator open.
arm64_runs() {
  grep -qs '^flags: .*F' /proc/sys/fs/binfmt_misc/qemu-aarch64 || [[ $(uname -m) == aarch64 ]]
}

enable_arm64() {
  [[ $EUID == 0 ]] || fail "arm64 images do not run here; as root: apt-get install qemu-user-static binfmt-support"
  command -v update-binfmts >/dev/null && command -v qemu-aarch64-static >/dev/null || {
    apt-get update -qq
    install qemu-user-static binfmt-support
  }
  mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
  update-binfmts --enable qemu-aarch64 2>/dev/null || true
  arm64_runs || fail "the kernel does not take qemu for arm64 programs; see update-binfmts --display qemu-aarch64"
}

main() {
  if ! engine_answers; then
    command -v dockerd >/dev/null || install_engine
    # Where an init system runs, the package has started it.
    engine_answers || start_engine
  fi
  arm64_runs || enable_arm64
  if [[ ${1:-} == --podman ]] && ! command -v buildah >/dev/null; then
    apt-get update -qq
    install podman buildah
  fi
  docker version --format 'engine {{.Server.Version}} runs, arm64 too' 2>/dev/null
}

main "$@"

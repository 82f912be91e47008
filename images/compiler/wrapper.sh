#!/usr/bin/env bash
# c7x in a container, used like the command c7x. Written by `docker run --rm @IMAGE@ wrapper`.
#
#   ./c7x.sh compile model.py -o build      the same paths inside as outside; files belong to you
#   ./c7x.sh bash                           a shell in the container
#   ./c7x.sh --install [FOLDER]             copy this script to FOLDER/c7x, default ~/.local/bin
#
# C7X_ENGINE      docker or podman; default: the first of them that is installed
# C7X_IMAGE       the image; default @IMAGE@
# C7X_RUN_ARGS    more options for `run`, such as "--memory 4g"
set -euo pipefail

image=${C7X_IMAGE:-@IMAGE@}

fail() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-1}"
}

if [[ ${1:-} == --install ]]; then
  folder=${2:-$HOME/.local/bin}
  mkdir -p "$folder"
  install -m 0755 "${BASH_SOURCE[0]}" "$folder/c7x"
  printf 'installed %s\n' "$folder/c7x"
  [[ :$PATH: == *":$folder:"* ]] || printf 'note: %s is not in PATH\n' "$folder" >&2
  exit
fi

engine=${C7X_ENGINE:-$(command -v docker || command -v podman || true)}
[[ -n $engine ]] || fail "there is neither docker nor podman; install one of them, or name it in C7X_ENGINE" 127

options=(--rm --pull never --network none --read-only --tmpfs '/tmp:exec,mode=1777' -e HOME=/tmp
  --cap-drop ALL --security-opt no-new-privileges -w "$PWD" -v "$PWD:$PWD")

# Folders outside the current one that arguments name are mounted too: an input, or the parent of an output.
# That parent is made here, by you: what is written to a folder that is not mounted would be lost with the container.
declare -A mounted=()
previous=
for argument in "$@"; do
  option=$previous
  previous=$argument
  [[ $argument != --output=* ]] || option=--output
  argument=${argument#--*=}
  [[ $argument == */* ]] || continue
  case $option in -o | --output) mkdir -p -- "$(dirname -- "$argument")" ;; esac
  folder=$(cd "$(dirname -- "$argument")" 2>/dev/null && pwd) || continue
  [[ $folder/ == "$PWD"/* || $folder == / || -n ${mounted[$folder]:-} ]] && continue
  mounted[$folder]=yes
  options+=(-v "$folder:$folder")
done

# Outputs belong to the caller. Rootless engines map the caller to root, or keep the id when asked to.
user=$(id -u):$(id -g)
case $(basename -- "$engine") in
  podman*) ((EUID == 0)) && options+=(-u "$user") || options+=(--userns keep-id -u "$user") ;;
  *)
    [[ $("$engine" info --format '{{.SecurityOptions}}' 2>/dev/null) != *name=rootless* ]] || user=0:0
    options+=(-u "$user")
    ;;
esac

# A terminal only where there is one: scripts and pipes get their bytes unchanged.
options+=(-i)
if [[ -t 0 && -t 1 ]]; then options+=(-t -e "TERM=${TERM:-xterm}"); fi
for name in C7X_TARGET NO_COLOR SOURCE_DATE_EPOCH; do
  [[ -z ${!name:-} ]] || options+=(-e "$name")
done
read -r -a more <<<"${C7X_RUN_ARGS:-}"

"$engine" image inspect "$image" >/dev/null 2>&1 ||
  fail "the image $image is not here: make images builds it, or $(basename -- "$engine") pull $image" 125
exec "$engine" run "${options[@]}" "${more[@]}" "$image" "$@"

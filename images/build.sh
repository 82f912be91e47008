#!/usr/bin/env bash
# Builds images: images/build.sh [NAME ...], names of the folders here; default: compiler aarch64 board dev ticgt.
#
# BASE        the base image; default: c7x-base:bookworm where `make base` made one, else what the Dockerfile names
# PLATFORM    linux/amd64 or linux/arm64; default: this machine's
# ENGINE      docker (with buildx) or buildah; default docker
# WHEELS      a folder with a wheel of torch; default: fetched once with pip, as it is set up here, into $C7X_CACHE
# TORCH_INDEX the index of torch's CPU builds, for pip
# BUILD_ARGS  more options for the build
# SOURCE      the label of the same name: where the source is published
# PROGRESS    plain shows all of a build's output where it does not go to a terminal
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

engine=${ENGINE:-docker}
machine=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
platform=${PLATFORM:-linux/$machine}
arch=${platform#linux/}
cache=${C7X_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/c7x}
torch_index=${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

locked() { # locked PACKAGE: its version in the lock file
  sed -n "s/^$1==\([^ ]*\).*/\1/p" requirements/compile.lock requirements/torch.txt
}

version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' c7x/version.py)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
# Dates in images: of the commit, so that building again gives the same.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}
export SOURCE_DATE_EPOCH BUILDX_GIT_INFO=false

has_image() {
  "$engine" image inspect "$1" >/dev/null 2>&1 || { [[ $engine == buildah ]] && buildah inspect "$1" >/dev/null 2>&1; }
}

# The wheel of torch's CPU build for the platform, in a folder of its own.
torch_wheels() {
  local folder
  folder=$cache/wheels/$arch-$(locked torch)
  if ! compgen -G "$folder/torch-*.whl" >/dev/null; then
    local tags=(--only-binary :all: --python-version 3.11 --implementation cp --abi cp311)
    tags+=(--platform "manylinux_2_28_$([[ $arch == arm64 ]] && echo aarch64 || echo x86_64)")
    local get=(python3 -m pip --retries 1 download --quiet --disable-pip-version-check --no-deps --dest "$folder" "${tags[@]}")
    # First the folders that pip is told of, then the index of CPU builds; never an index whose build brings CUDA.
    "${get[@]}" --no-index -r requirements/torch.txt 2>/dev/null ||
      "${get[@]}" --index-url "$torch_index" -r requirements/torch.txt 2>/dev/null ||
      fail "there is no CPU build of torch $(locked torch) for $platform: PIP_FIND_LINKS names no folder with its wheel," \
        "and TORCH_INDEX ($torch_index) does not answer"
  fi
  printf '%s\n' "$folder"
}

build() { # build NAME TAG [OPTION ...]
  local name=$1 tag=$2
  shift 2
  local options=(--file "images/$name/Dockerfile" --tag "$tag" --platform "$platform"
    --build-arg "VERSION=$version" --build-arg "REVISION=$revision" --build-arg "SOURCE=${SOURCE:-unknown}" "$@")
  # Where TLS is signed anew, pip needs the bundle that this machine uses.
  local bundle=${PIP_CERT:-${SSL_CERT_FILE:-}}
  [[ -z $bundle ]] || options+=(--secret "id=ca,src=$bundle")
  local variable
  for variable in http_proxy https_proxy no_proxy; do
    [[ -z ${!variable:-} ]] || options+=(--build-arg "$variable")
  done
  # shellcheck disable=SC2206
  options+=(${BUILD_ARGS:-})
  # buildah's own format, OCI: configurations in Docker's hold the name of the container that built.
  local command=(docker buildx build --progress "${PROGRESS:-auto}" --provenance=false "${options[@]}" .)
  [[ $engine != buildah ]] || command=(buildah build --layers --timestamp "$SOURCE_DATE_EPOCH" "${options[@]}" .)
  if [[ -t 1 || -n ${PROGRESS:-} ]]; then
    printf '== %s\n' "$tag"
    "${command[@]}"
  else
    # A log has no use for the progress of a build that works.
    local log start=$SECONDS
    log=$(mktemp)
    "${command[@]}" >"$log" 2>&1 || {
      tail -n 100 "$log" >&2
      rm -f "$log"
      fail "the image $tag was not built; the end of its log is above"
    }
    rm -f "$log"
    printf '== %s (%d s)\n' "$tag" "$((SECONDS - start))"
  fi
}

debian() { # the options that name the base of an image made from Debian
  local base=${BASE:-}
  [[ -n $base ]] || for base in "c7x-base:bookworm-$arch" c7x-base:bookworm ''; do
    [[ $base == c7x-base:bookworm && $arch != "$machine" ]] && continue
    [[ -n $base ]] && has_image "$base" && break
  done
  [[ -z $base ]] || printf '%s\n' --build-arg "BASE=$base"
}

suffix=
[[ $arch == "$machine" ]] || suffix=-$arch
compiler=c7x:$version$suffix

build_compiler() {
  local options
  mapfile -t options < <(debian)
  local wheels
  wheels=${WHEELS:-$(torch_wheels)}
  build compiler "$compiler" "${options[@]}" --build-context "wheels=$wheels" --tag "c7x:latest$suffix" \
    --build-arg "TVM_VERSION=$(locked apache-tvm)" --build-arg "TORCH_VERSION=$(locked torch)"
}

build_aarch64() {
  local options
  mapfile -t options < <(debian)
  build aarch64 "c7x-aarch64:$version$suffix" "${options[@]}" --tag "c7x-aarch64:latest$suffix"
}

build_board() {
  local platform=linux/arm64 arch=arm64 options
  mapfile -t options < <(debian)
  build board "c7x-board:$version" "${options[@]}" --tag c7x-board:latest \
    --build-arg "TOOLS=c7x-aarch64:$version$suffix"
}

build_dev() {
  build dev "c7x-dev:$version$suffix" --tag "c7x-dev:latest$suffix" --build-arg "BASE=$compiler" \
    --build-arg "TVM_VERSION=$(locked apache-tvm)" --build-arg "TORCH_VERSION=$(locked torch)"
}

# TI's tools come from the user: TICGT names an installer or a folder where they are installed, TICGT_SHA256 what the
# installer's hash must be, ACCEPT_TI_LICENSE=yes says that TI's licence is accepted.
build_ticgt() {
  if [[ -z ${TICGT:-} ]]; then
    echo "== c7x-ticgt: left out, since TICGT names neither TI's installer of the C7000 tools nor a folder with them"
    return
  fi
  [[ -e $TICGT ]] || fail "TICGT=$TICGT does not exist"
  local folder=$TICGT file=
  if [[ -f $TICGT ]]; then
    folder=$(dirname "$TICGT")
    file=$(basename "$TICGT")
    [[ -n ${TICGT_SHA256:-} ]] || fail "TICGT_SHA256 is not set: the SHA-256 that TI's download page gives for $file"
  fi
  build ticgt "c7x-ticgt:$version$suffix" --tag "c7x-ticgt:latest$suffix" --build-arg "BASE=$compiler" \
    --build-context "ticgt=$folder" --build-arg "TICGT_FILE=$file" --build-arg "TICGT_SHA256=${TICGT_SHA256:-}" \
    --build-arg "ACCEPT_TI_LICENSE=${ACCEPT_TI_LICENSE:-no}" \
    --build-arg "TVM_VERSION=$(locked apache-tvm)" --build-arg "TORCH_VERSION=$(locked torch)"
}

(($#)) || set -- compiler aarch64 board dev ticgt
for name in "$@"; do
  declare -F "build_$name" >/dev/null || fail "there is no image $name; there are compiler, aarch64, board, dev and ticgt"
  "build_$name"
done

#!/bin/sh
# Entry point of the compiler and board images: commands of c7x go to c7x, `wrapper [IMAGE]` prints the script that runs this image,
# anything else is executed. The process is replaced, so exit codes and signals are the program's own.
set -eu

share=/usr/local/share/c7x

if [ -n "${C7X_AS_OWNER:-}" ]; then exec c7x-as-owner env -u C7X_AS_OWNER "$0" "$@"; fi

# Any user id works, also one without an entry in /etc/passwd and without a home.
if [ ! -w "${HOME:-/}" ]; then
  HOME=/tmp
fi
USER=${USER:-$(id -u)}
export HOME USER

is_command() {
  while read -r name; do
    if [ "$name" = "$1" ]; then return 0; fi
  done <"$share/commands"
  return 1
}

# A model that the container does not see is the commonest mistake: its folder is not mounted.
require_models() {
  for argument in "$@"; do
    case $argument in
      -*) ;;
      *.py | *.pt2)
        if [ ! -e "$argument" ]; then
          printf 'error: %s is not in the container\n' "$argument" >&2
          printf '  cause: its folder is not mounted, or the name is wrong\n' >&2
          # shellcheck disable=SC2016
          printf '  hint: docker run --rm -v "$PWD:$PWD" -w "$PWD" -u $(id -u):$(id -g) c7x %s ...\n' "$command" >&2
          exit 3
        fi
        ;;
    esac
  done
}

case ${1:-} in
  '') exec c7x --help ;;
  wrapper)
    [ -f "$share/wrapper.sh" ] || exec c7x "$@"
    exec sed "s|@IMAGE@|${2:-c7x:$(cat "$share/version")}|g" "$share/wrapper.sh"
    ;;
  -*) exec c7x "$@" ;;
esac
if is_command "$1"; then
  command=$1
  case $command in compile | export | quantize) require_models "$@" ;; esac
  exec c7x "$@"
fi
# What is neither a command nor a program is most likely a mistyped command, and c7x has a suggestion.
command -v "$1" >/dev/null || exec c7x "$@"
exec "$@"

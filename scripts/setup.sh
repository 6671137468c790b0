#!/usr/bin/env bash
# Builds .venv from a hashed lock file. Usage: scripts/setup.sh LOCKFILE VENV
# Installs the Debian packages it needs when it may, and says plainly what is missing when it may not.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=$1
venv=$2

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
  command -v apt-get >/dev/null || return 1
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

updated=no
apt_install() {
  may_install || return 1
  if [ $updated = no ]; then
    as_root apt-get update -qq >/dev/null 2>&1 || true
    updated=yes
  fi
  say "installing Debian package: $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1
}

find_python() {
  for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

[ "$(uname -s)" = Linux ] || [ "$(uname -s)" = Darwin ] || fail "Linux is supported, macOS is best effort; on Windows use WSL"

command -v git >/dev/null || apt_install git || fail "git is missing: apt-get install git"
command -v bwrap >/dev/null || apt_install bubblewrap ||
  say "bubblewrap is missing and could not be installed; steps run without a process namespace (apt-get install bubblewrap)"
python=$(find_python) || { apt_install python3 && python=$(find_python); } || fail "Python 3.11 or newer is missing"

if command -v uv >/dev/null; then
  uv venv --quiet --clear --python "$python" "$venv"
  uv pip install --quiet --compile-bytecode --python "$venv/bin/python" --require-hashes -r "$lock"
  [ "${SKIP_PROJECT:-}" ] || uv pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation -e .
else
  "$python" -c 'import ensurepip' 2>/dev/null || apt_install python3-venv ||
    fail "Python's venv module is missing: apt-get install python3-venv (or install uv)"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
  [ "${SKIP_PROJECT:-}" ] || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
fi
say "$venv is ready ($("$venv/bin/python" --version))"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Python interpreter with the modules that the tests of the
# Python package need: torch with its dependencies, numpy, cloudpickle, and
# nbclient and ipykernel, which execute notebooks.
#
#   tools/python_env.sh            for the package and the notebooks
#   tools/python_env.sh browser    also installs JupyterLab, Playwright and
#                                  Chromium
#
# TEST_PYTHON=<interpreter>  use this interpreter, install nothing
#
# Without TEST_PYTHON, creates a virtual environment in .deps/venv. The lists of
# its packages are written last, so an interrupted installation is repeated by
# the next call.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly requirements="torch==2.11.0 numpy cloudpickle nbclient ipykernel"
readonly browser_requirements="jupyterlab==4.* playwright auditwheel==6.*"
readonly venv=$PWD/.deps/venv

say() { printf '%s\n' "python: $*" >&2; }
fail() {
  printf '%s\nhint: %s\n' "error: $1" "$2" >&2
  exit 1
}

if [ -n "${TEST_PYTHON:-}" ]; then
  "$TEST_PYTHON" -c 'import torch, cloudpickle' || fail \
    "$TEST_PYTHON does not have both torch and cloudpickle" "install them, or unset TEST_PYTHON"
  echo "$TEST_PYTHON"
  exit
fi

has_headers() {
  python3 -c 'import os, sysconfig, venv, ensurepip
raise SystemExit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null
}

# provide_packages <problem that they solve> <package>...
provide_packages() {
  local problem=$1 as_root=()
  shift
  if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
  say "installing $*"
  "${as_root[@]}" apt-get install -y --no-install-recommends "$@" >&2 ||
    { "${as_root[@]}" apt-get update >&2 &&
      "${as_root[@]}" apt-get install -y --no-install-recommends "$@" >&2; } ||
    fail "$problem, and installing $* failed" "install $*, then try again"
}

# provide_modules <stamp> <requirement>...
provide_modules() {
  local stamp=$1
  shift
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2 ||
    fail "could not install $*" "check the network connection, then try again"
  echo "$*" >"$stamp"
}

if [ "$(cat "$venv/requirements" 2>/dev/null)" != "$requirements" ]; then
  has_headers || provide_packages "python3 has no headers or no venv" python3-dev python3-venv
  say "creating a virtual environment with $requirements"
  rm -rf "$venv"
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
  # shellcheck disable=SC2086
  provide_modules "$venv/requirements" $requirements
fi
if [ "${1:-}" = browser ]; then
  if [ "$(cat "$venv/browser_requirements" 2>/dev/null)" != "$browser_requirements" ]; then
    say "adding $browser_requirements"
    # shellcheck disable=SC2086
    provide_modules "$venv/browser_requirements" $browser_requirements
  fi
  # Debian's package; Ubuntu's `chromium` is a snap, which needs snapd.
  command -v chromium chromium-browser google-chrome >/dev/null ||
    provide_packages "Chromium is not installed" chromium fonts-dejavu-core
fi
echo "$venv/bin/python"

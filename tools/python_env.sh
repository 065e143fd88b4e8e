#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prints a Python that has what the tests of the Python package need: torch
# with its dependencies, numpy, cloudpickle, and what executes notebooks.
#
#   tools/python_env.sh
#
# TEST_PYTHON=<interpreter>  use this one, install nothing
#
# Otherwise an environment of its own in .deps/venv. The list of what it has is
# written last, so that an interrupted call is repeated by the next one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly requirements="torch==2.11.0 numpy cloudpickle nbclient ipykernel"
readonly venv=$PWD/.deps/venv

say() { printf '%s\n' "python: $*" >&2; }
fail() {
  printf '%s\nhint: %s\n' "error: $1" "$2" >&2
  exit 1
}

if [ -n "${TEST_PYTHON:-}" ]; then
  "$TEST_PYTHON" -c 'import torch, cloudpickle' || fail \
    "$TEST_PYTHON lacks torch or cloudpickle" "install them, or leave TEST_PYTHON out"
  echo "$TEST_PYTHON"
  exit
fi

has_headers() {
  python3 -c 'import os, sysconfig, venv, ensurepip
raise SystemExit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null
}

provide_python() {
  if has_headers; then return; fi
  local as_root=()
  if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
  say "installing python3-dev and python3-venv"
  "${as_root[@]}" apt-get install -y --no-install-recommends python3-dev python3-venv >&2 ||
    { "${as_root[@]}" apt-get update >&2 &&
      "${as_root[@]}" apt-get install -y --no-install-recommends python3-dev python3-venv >&2; } ||
    fail "python3 has no headers or no venv, and they cannot be installed" \
      "install python3-dev and python3-venv, then repeat"
}

if [ "$(cat "$venv/requirements" 2>/dev/null)" != "$requirements" ]; then
  provide_python
  say "making an environment with $requirements"
  rm -rf "$venv"
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
  # shellcheck disable=SC2086
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $requirements >&2 ||
    fail "could not install $requirements" "check the network and repeat"
  echo "$requirements" >"$venv/requirements"
fi
echo "$venv/bin/python"

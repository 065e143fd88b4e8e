#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the wheel into an empty environment beside torch, and uses it as in
# a notebook service: both kinds of program, far from the build.
#
#   python/tests/wheel.sh <wheel> <python that has torch>
set -euo pipefail

wheel=$(realpath "$1")
python=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "error: $*" >&2
  exit 1
}

# An environment of its own; torch is not downloaded again: links stand for an
# installation of it beside ours.
"$python" -m venv "$work/venv"
site=$(echo "$work"/venv/lib/python*/site-packages)
from=$("$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')
for item in "$from"/*; do
  name=$(basename "$item")
  case $name in
    accelerate* | pip* | setuptools* | __pycache__) ;;
    *) [ -e "$site/$name" ] || ln -s "$item" "$site/$name" ;;
  esac
done
"$work/venv/bin/python" -m pip install --quiet --no-index --disable-pip-version-check "$wheel"

unset PYTHONPATH
export HOME=$work/home PATH=$work/venv/bin:/usr/bin:/bin OMP_NUM_THREADS=1
mkdir "$HOME"
cd "$work"
for file in "$site"/accelerate_cpp/_core*.so "$site"/accelerate_cpp/lib/*.so* \
  "$site/accelerate_cpp/bin/accelerate"; do
  if readelf -d "$file" | grep -E 'R(UN)?PATH' | grep -E '\[/|:/'; then
    fail "$file looks for libraries at a fixed path"
  fi
done

launch=(accelerate launch --cpu --num_processes 2)
expect() {
  local pattern=$1 text
  shift
  text=$("$@" 2>&1) || fail "$* failed: $text"
  grep -E "$pattern" <<<"$text" || fail "$* printed: $text"
}
expect '^accuracy (0\.9|1\.).* on 101 samples' "${launch[@]}" "$here/../../examples/python/base.py"
cat >train.cpp <<'CPP'
#include <accelerate/accelerate.h>
int main() {
  accelerate::Accelerator accelerator;
  accelerator.print("C++ on ", accelerator.num_processes());
}
CPP
expect '^C\+\+ on 2' "${launch[@]}" train.cpp
expect . accelerate-cpp --version
expect '^Usage: accelerate launch' python -m accelerate_cpp.launch --help

# A peer comes: the name `accelerate` is the peer's, whoever owns the file.
info=$site/accelerate-9.9.dist-info
mkdir "$info" "$site/accelerate"
printf 'Metadata-Version: 2.1\nName: accelerate\nVersion: 9.9\n' >"$info/METADATA"
printf '[console_scripts]\naccelerate = accelerate:main\n' >"$info/entry_points.txt"
echo 'def main(): print("the peer")' >"$site/accelerate/__init__.py"
[ "$(accelerate)" = "the peer" ] || fail "accelerate is not the peer's where the peer is"
accelerate-cpp --version >/dev/null
echo "python: the wheel works in an environment of its own"

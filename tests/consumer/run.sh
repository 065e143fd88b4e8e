#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs a five-line project, once against the installed package and
# once with add_subdirectory.
#   tests/consumer/run.sh <build folder>
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath "$1")
work=$build/consumer
from_cache() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
fail() {
  echo "error: $*" >&2
  exit 1
}

# build_and_run <installed|embedded> <cmake argument>...
# Not optimized: this only tests targets and headers, and the embedded project
# compiles the whole library.
build_and_run() {
  local kind=$1
  shift
  cmake -S "$here/$kind" -B "$work/$kind" -G Ninja --log-level=WARNING \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
    -DCMAKE_TOOLCHAIN_FILE="$toolchain" "$@"
  cmake --build "$work/$kind" -j "$(nproc)"
  [ "$("$work/$kind/consumer")" = "caught on cpu" ] ||
    fail "the $kind consumer did not print \`caught on cpu\`"
  echo "consumer: $kind works"
}

check_installed_files() {
  local file
  for file in "$moved"/lib*/libaccelerate*.so "$moved/bin/accelerate"; do
    [ -e "$file" ] || continue
    if readelf -d "$file" | grep -E 'R(UN)?PATH' | grep -F "$build"; then
      fail "$file looks for libraries in the build folder"
    fi
  done
  if grep -rlIF "$build" "$moved"; then
    fail "the files above contain the path of the build folder"
  fi
  "$here/../../tools/check_runpaths.py" "$moved" ||
    fail "an installed file looks for libraries in the current folder"
  if [ "$(from_cache ACCELERATE_HARDENING)" = ON ]; then
    "$here/../../tools/check_hardening.py" "$moved" ||
      fail "an installed file lacks a protection"
  fi
  "$moved/bin/accelerate" --version
}

# Tests the command of an installation that was moved: runs the self-test, and
# launches a single source file, which the first launch compiles and the second
# launch reuses.
check_installed_command() {
  local launch=("$moved/bin/accelerate" launch --cpu --num_processes 2)
  local first second
  mkdir "$work/home"
  HOME=$work/home "$moved/bin/accelerate" test --cpu --num_processes 2
  cp "$here/main.cpp" "$work/single.cpp"
  first=$(HOME=$work/home "${launch[@]}" "$work/single.cpp" 2>&1)
  second=$(HOME=$work/home "${launch[@]}" "$work/single.cpp" 2>&1)
  grep -q '^Compiling single.cpp' <<<"$first" ||
    fail "the first launch did not compile: $first"
  [ "$second" = "caught on cpu
[1] caught on cpu" ] || [ "$second" = "caught on cpu
[0] caught on cpu" ] || fail "the second launch printed: $second"
  echo "consumer: the installed command works"
}

toolchain=$(from_cache CMAKE_TOOLCHAIN_FILE)
moved=$work/moved
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >"$work.log"
mv "$work.log" "$work/install.log"
# The package must also work after it is moved.
mv "$work/prefix" "$moved"
check_installed_files
check_installed_command
build_and_run installed -DCMAKE_PREFIX_PATH="$moved"

torch=()
if [ -n "${TORCH_DIR:-}" ]; then torch=("-DTORCH_DIR=$TORCH_DIR"); fi
build_and_run embedded "${torch[@]}" \
  -DCMAKE_PROJECT_consumer_INCLUDE="$here/check_targets.cmake"

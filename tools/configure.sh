#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Configures a preset if needed: the first time, after an interruption, and
# after a change to the presets or to the inputs below. Ninja itself handles
# changes to CMake files.
#
#   tools/configure.sh <preset> <build folder>
set -euo pipefail

preset=$1
folder=$2
stamp=$folder/configured_with.txt

# Prints the inputs whose changes CMake does not detect.
inputs() {
  echo "TORCH_DIR=${TORCH_DIR:-}"
  echo "CMAKE_ARGS=${CMAKE_ARGS:-}"
  echo "mpicxx=$(command -v mpicxx || true)"
  echo "ccache=$(command -v ccache || true)"
  cksum CMakePresets.json cmake/toolchain/*.cmake
}

# CMake writes build.ninja last and renames it to its final name.
if [ -e "$folder/build.ninja" ] && [ -e "$stamp" ] &&
  [ "$(inputs)" = "$(cat "$stamp")" ]; then
  exit 0
fi

rm -f "$stamp"
arguments=()
if [ -n "${TORCH_DIR:-}" ]; then arguments+=("-DTORCH_DIR=$TORCH_DIR"); fi
# CMAKE_ARGS holds arguments separated by spaces.
# shellcheck disable=SC2086
cmake --preset "$preset" "${arguments[@]}" ${CMAKE_ARGS:-}
inputs >"$stamp"

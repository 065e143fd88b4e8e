#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Configures a preset when that is needed: the first time, after an
# interruption, and when the presets or what a build depends on have changed.
# Changes of CMake files are ninja's business.
#
#   tools/configure.sh <preset> <build folder>
set -euo pipefail

preset=$1
folder=$2
stamp=$folder/configured_with.txt

# What CMake would not notice by itself.
inputs() {
  echo "TORCH_DIR=${TORCH_DIR:-}"
  echo "CMAKE_ARGS=${CMAKE_ARGS:-}"
  echo "mpicxx=$(command -v mpicxx || true)"
  echo "ccache=$(command -v ccache || true)"
  cksum CMakePresets.json cmake/toolchain/*.cmake
}

# build.ninja is the last file CMake writes, and it is renamed into place.
if [ -e "$folder/build.ninja" ] && [ -e "$stamp" ] &&
  [ "$(inputs)" = "$(cat "$stamp")" ]; then
  exit 0
fi

rm -f "$stamp"
arguments=()
if [ -n "${TORCH_DIR:-}" ]; then arguments+=("-DTORCH_DIR=$TORCH_DIR"); fi
# CMAKE_ARGS is a list of words, as on a command line.
# shellcheck disable=SC2086
cmake --preset "$preset" "${arguments[@]}" ${CMAKE_ARGS:-}
inputs >"$stamp"

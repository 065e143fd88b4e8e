#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the program does not load LibTorch, so that it starts in
# milliseconds.
#   without_libtorch.sh <program>
set -euo pipefail

libraries=$(ldd "$1")
if grep -E 'lib(torch|c10|cuda|cu)' <<<"$libraries"; then
  echo "error: $1 loads the libraries above" >&2
  exit 1
fi

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command starts in milliseconds because it does not load LibTorch.
#   without_libtorch.sh <program>
set -euo pipefail

libraries=$(ldd "$1")
if grep -E 'lib(torch|c10|cuda|cu)' <<<"$libraries"; then
  echo "error: $1 loads the libraries above" >&2
  exit 1
fi

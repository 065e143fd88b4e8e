#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Precompiles the headers of C++ notebooks, which takes half a minute, before
# tests with shorter timeouts. Without clang 19 those tests are skipped.
#   jupyter_header.sh <kernel> <cache folder>
set -euo pipefail

command -v clang-repl-19 >/dev/null || [ -x /usr/lib/llvm-19/bin/clang-repl ] || exit 0
XDG_CACHE_HOME=$2 "$1" --prepare

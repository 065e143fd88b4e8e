#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the compiler rejects `prepare` for an unsupported type with a
# message that lists the supported types, and that it accepts models.
#
#   compile_errors.sh <compiler> <our include folder> <LibTorch's folder>
set -uo pipefail

compile() {
  "$compiler" -std=c++20 -fsyntax-only "$@" -I "$include" \
    -isystem "$torch/include" \
    "$(dirname "$0")/compile_errors.cpp" 2>&1
}

# refused <case> <part of the message>
refused() {
  local output
  if output=$(compile "-D$1"); then
    echo "$1 compiles"
    failed=1
  elif ! grep -qF -- "$2" <<<"$output"; then
    echo "$1 is refused, but not with \`$2\`:"
    echo "$output"
    failed=1
  fi
}

compiler=$1 include=$2 torch=$3 failed=0
compile -DCASE_GOOD || failed=1
refused CASE_UNKNOWN 'prepare takes torch::nn modules (also holders, shared_ptr'
refused CASE_LIBTORCH_SCHEDULER 'with accelerate::adapt() first'
refused CASE_NO_ARGUMENT 'calls the function with one argument'
exit $failed

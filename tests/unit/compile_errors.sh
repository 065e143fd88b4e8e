#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the compiler rejects the cases in a source file, and that it
# accepts CASE_GOOD. A line of the file names a case and a part of the message:
#
#   // refused <case>: <part of the message>
#
#   compile_errors.sh <source> <compiler> <our include folder> <LibTorch's folder>
set -uo pipefail

compile() {
  "$compiler" -std=c++20 -fsyntax-only "$@" -I "$include" \
    -isystem "$torch/include" \
    -isystem "$torch/include/torch/csrc/api/include" "$source" 2>&1
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

source=$1 compiler=$2 include=$3 torch=$4 failed=0 cases=0
compile -DCASE_GOOD || failed=1
while IFS= read -r line; do
  refused "${line%%: *}" "${line#*: }"
  cases=$((cases + 1))
done < <(sed -n 's|^// refused ||p' "$source")
if ((cases == 0)); then
  echo "$source lists no cases"
  failed=1
fi
exit $failed

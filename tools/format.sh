#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the format of the C++ files; with --fix, formats them.
#
# Versions of clang-format differ in details, so only version 19 is used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

formatter=
for name in clang-format-19 clang-format; do
  if "$name" --version 2>/dev/null | grep -q 'version 19\.'; then
    formatter=$name
    break
  fi
done
if [ -z "$formatter" ]; then
  echo "format: not checked, clang-format 19 is not installed"
  [ "${1:-}" != --fix ]
  exit
fi

mapfile -t files < <(git ls-files -co --exclude-standard \
  '*.cpp' '*.h' '*.hpp' '*.cu' '*.cuh')
if [ "${1:-}" = --fix ]; then
  "$formatter" -i "${files[@]}"
elif "$formatter" --dry-run -Werror "${files[@]}"; then
  echo "format: ok"
else
  echo "format: run \`make format\`" >&2
  exit 1
fi

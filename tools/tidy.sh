#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy 19 on the C++ sources changed since the branch left main.
#   tools/tidy.sh <build folder>
# Uses the compiler flags from the build folder, which must have been made with
# PRESET=dev, since clang cannot use g++'s precompiled headers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$1
if ! command -v clang-tidy-19 >/dev/null; then
  echo "tidy: not run, clang-tidy-19 is not installed"
  exit 0
fi
for name in origin/main main; do
  base=$(git merge-base HEAD "$name" 2>/dev/null) && break
done
# On main, checks the files that the last commit changed.
if [ -z "${base:-}" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
  base=$(git rev-parse --verify --quiet HEAD~1) || base=HEAD
fi
mapfile -t files < <(git diff --name-only --diff-filter=AM "$base" -- \
  'src/*.cpp' 'cli/*.cpp')
if [ "${#files[@]}" -eq 0 ]; then
  echo "tidy: no source file has changed"
  exit 0
fi
printf '%s\n' "${files[@]}" |
  xargs -P "$(tools/jobs.sh)" -n 1 clang-tidy-19 --quiet -p "$build"
echo "tidy: ok, files checked: ${#files[@]}"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Our own kernels under compute-sanitizer: memcheck in each test of the kernels
# and of the blocks, racecheck in each test of the kernels (it stumbles over the
# matrix products of cuBLAS). A line for each; fails where one is not clean.
#
#     tests/gpu/sanitize.sh [-j <at a time>] [-t <tools>] [-f <filter>] \
#       [<build folder>]
#
#   -j  tests at a time (8)
#   -t  tools ("memcheck racecheck")
#   -f  a --gtest_filter ('*')
#
# What is not clean is run once more, alone.
# A test that takes longer than SANITIZE_SECONDS (300) counts as not clean.
set -euo pipefail
jobs=8
tools="memcheck racecheck"
filter='*'
while getopts j:t:f: option; do
  case $option in
    j) jobs=$OPTARG ;;
    t) tools=$OPTARG ;;
    f) filter=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
build=${1:-build}
if [ ! -e /dev/nvidiactl ]; then
  echo "skipped: there is no GPU"
  exit 77
fi
export SANITIZER SANITIZE_SECONDS=${SANITIZE_SECONDS:-300}
SANITIZER=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
if [ ! -x "$SANITIZER" ]; then
  echo "error: there is no compute-sanitizer; install the CUDA toolkit's" >&2
  exit 2
fi

# Suite.Test, one a line.
tests_of() {
  "$1" --gtest_list_tests --gtest_filter="$filter" |
    awk '/^[A-Za-z].*\.$/ { suite = $1 } /^  / { print suite $1 }'
}

# one <tool> <binary> <test>
one() {
  local log begin=$SECONDS verdict
  log=$(mktemp)
  if timeout "$SANITIZE_SECONDS" "$SANITIZER" --tool "$1" \
    --kernel-name kns=accelerate --error-exitcode 9 \
    "$2" --gtest_filter="$3" >"$log" 2>&1 &&
    grep -q '\[  PASSED  \] 1 test' "$log"; then
    verdict=clean
  else
    verdict="NOT CLEAN"
    grep -E -A8 '^========= (Error|Race|Invalid|Internal)|Failure' "$log" |
      head -40 >&2
  fi
  echo "$verdict $1 $3 $((SECONDS - begin)) s"
  rm -f "$log"
}
export -f one

# Lines "<tool> <binary> <test>", so many at a time.
all() { xargs -r -P "$1" -L 1 bash -c 'one "$@"' one; }

wanted=$(
  for tool in $tools; do
    for name in gpu_kernels gpu_blocks; do
      if [ "$tool $name" = "racecheck gpu_blocks" ]; then continue; fi
      binary=$build/bin/tests/$name
      tests_of "$binary" | sed "s|^|$tool $binary |"
    done
  done
)
result=$(all "$jobs" <<<"$wanted" | tee >(cat >&2))
# The tool stumbles at times where several run: once more, one after the other.
again=$(sed -n 's/^NOT CLEAN \([^ ]*\) \([^ ]*\) .*/\1 [^ ]* \2$/p' <<<"$result")
if [ -n "$again" ]; then
  result=$(
    grep '^clean' <<<"$result" || true
    grep -x -f <(echo "$again") <<<"$wanted" | all 1 | tee >(cat >&2)
  )
fi
total=$(grep -c . <<<"$result" || true)
clean=$(grep -c '^clean' <<<"$result" || true)
echo "$clean of $total clean"
[ "$total" -gt 0 ] && [ "$clean" -eq "$total" ]

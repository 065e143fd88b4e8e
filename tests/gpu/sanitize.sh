#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the kernels under compute-sanitizer: memcheck for each test of the
# kernels and of the blocks, and racecheck for each test of the kernels
# (racecheck does not support cuBLAS GEMMs). Prints a line for each test. Fails
# if the sanitizer reports a problem in any test.
#
#     tests/gpu/sanitize.sh [-j <jobs>] [-t <tools>] [-f <filter>] \
#       [<build folder>]
#
#   -j  parallel jobs (8)
#   -t  tools ("memcheck racecheck")
#   -f  a --gtest_filter ('*')
#
# Tests with a problem run a second time, one after another. A test that takes
# longer than SANITIZE_SECONDS (300) counts as a test with a problem.
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
  echo "error: compute-sanitizer was not found; install the CUDA toolkit" >&2
  exit 2
fi

# Prints Suite.Test, one per line.
tests_of() {
  "$1" --gtest_list_tests --gtest_filter="$filter" |
    awk '/^[A-Za-z].*\.$/ { suite = $1 } /^  / { print suite $1 }'
}

# run_test <tool> <binary> <test>
run_test() {
  local log begin=$SECONDS status
  log=$(mktemp)
  if timeout "$SANITIZE_SECONDS" "$SANITIZER" --tool "$1" \
    --kernel-name kns=accelerate --error-exitcode 9 \
    "$2" --gtest_filter="$3" >"$log" 2>&1 &&
    grep -q '\[  PASSED  \] 1 test' "$log"; then
    status=clean
  else
    status="NOT CLEAN"
    grep -E -A8 '^========= (Error|Race|Invalid|Internal)|Failure' "$log" |
      head -40 >&2
  fi
  echo "$status $1 $3 $((SECONDS - begin)) s"
  rm -f "$log"
}
export -f run_test

# run_all <jobs>: runs the lines "<tool> <binary> <test>" of stdin in parallel.
run_all() { xargs -r -P "$1" -L 1 bash -c 'run_test "$@"' run_test; }

wanted=$(
  for tool in $tools; do
    for name in gpu_kernels gpu_blocks; do
      if [ "$tool $name" = "racecheck gpu_blocks" ]; then continue; fi
      binary=$build/bin/tests/$name
      tests_of "$binary" | sed "s|^|$tool $binary |"
    done
  done
)
result=$(run_all "$jobs" <<<"$wanted" | tee >(cat >&2))
# The sanitizer sometimes fails if several tests run in parallel, so failed
# tests are retried one at a time.
again=$(sed -n 's/^NOT CLEAN \([^ ]*\) \([^ ]*\) .*/\1 [^ ]* \2$/p' <<<"$result")
if [ -n "$again" ]; then
  result=$(
    grep '^clean' <<<"$result" || true
    grep -x -f <(echo "$again") <<<"$wanted" | run_all 1 | tee >(cat >&2)
  )
fi
total=$(grep -c . <<<"$result" || true)
clean=$(grep -c '^clean' <<<"$result" || true)
echo "$clean of $total clean"
[ "$total" -gt 0 ] && [ "$clean" -eq "$total" ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures training steps of this library and of Hugging Face Accelerate, one
# after the other on one GPU.
#
#   benchmarks/compare_gpu.sh [-b <gpu_step>] [-o <text>] \
#     [-m "<modes>"] [-c <text>] <Python script>...
#
#   -b  our binary (build/bin/benchmarks/gpu_step)
#   -o  only workloads whose names start with this: bert, gpt2, llama, module
#   -m  modes of the Python scripts ("eager compile reduce-overhead")
#   -c  like -o, for the modes that compile, which take minutes
#
# A Python script takes modes and `--only`, and prints a JSON line for each
# workload with `work`, `mode`, `ms` and, where available, `peak_gb` and `loss`.
# gpu_step_module.py is such a script, for the plain module.
set -euo pipefail

binary=build/bin/benchmarks/gpu_step
only=
only_compiled=
modes="eager compile reduce-overhead"
while getopts b:o:m:c: option; do
  case $option in
    b) binary=$OPTARG ;;
    o) only=$OPTARG ;;
    m) modes=$OPTARG ;;
    c) only_compiled=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if [ $# -eq 0 ]; then
  echo "error: the Python script to compare with is missing" >&2
  exit 2
fi

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
"$binary" --json ${only:+--only "$only"} | tee >(cat >&2) >>"$lines"
for script in "$@"; do
  # Each mode runs in its own process, because code that one mode has compiled
  # slows down the next mode.
  for mode in $modes; do
    which=$only
    if [ "$mode" != eager ]; then which=${only_compiled:-$only}; fi
    python3 "$script" "$mode" ${which:+--only "$which"} |
      { grep '^{' || true; } | tee >(cat >&2) >>"$lines"
  done
done
exec python3 "$(dirname "$0")/compare_gpu.py" "$lines"

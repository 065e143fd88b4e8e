#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Our training steps and the Python peer's, one after the other on one GPU.
#
#   benchmarks/compare_gpu.sh [-b <gpu_step_loop>] [-o <text>] \
#     [-m "<modes>"] <peer's script>...
#
#   -b  our binary (build/bin/benchmarks/gpu_step_loop)
#   -o  only works whose names begin so: bert, gpt2, llama
#   -m  the peer's modes ("eager compile reduce-overhead")
#
# A peer's script takes modes and `--only`, and prints a JSON line for each
# work with `work`, `mode`, `ms`, and, where it has them, `peak_gb` and `loss`.
set -euo pipefail

binary=build/bin/benchmarks/gpu_step_loop
only=
modes="eager compile reduce-overhead"
while getopts b:o:m: option; do
  case $option in
    b) binary=$OPTARG ;;
    o) only=$OPTARG ;;
    m) modes=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if [ $# -eq 0 ]; then
  echo "error: no script of the peer was given" >&2
  exit 2
fi

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
"$binary" --json --mode loop ${only:+--only "$only"} | tee /dev/stderr >>"$lines"
for script in "$@"; do
  # Each mode in a process of its own: what one compiled slows the next.
  for mode in $modes; do
    python3 "$script" "$mode" ${only:+--only "$only"} |
      { grep '^{' || true; } | tee /dev/stderr >>"$lines"
  done
done
exec python3 "$(dirname "$0")/compare_gpu.py" "$lines"

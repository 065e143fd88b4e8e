#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Our training steps and the Python peer's, one after the other on one GPU.
#
#   benchmarks/compare_gpu.sh [-b <gpu_step>] [-o <text>] \
#     [-m "<modes>"] [-c <text>] <peer's script>...
#
#   -b  our binary (build/bin/benchmarks/gpu_step)
#   -o  only works whose names begin so: bert, gpt2, llama, module
#   -m  the peer's modes ("eager compile reduce-overhead")
#   -c  the same as -o for the modes that compile, which take minutes
#
# A peer's script takes modes and `--only`, and prints a JSON line for each
# work with `work`, `mode`, `ms`, and, where it has them, `peak_gb` and `loss`;
# gpu_step_module.py here is one, for the plain module.
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
  echo "error: no script of the peer was given" >&2
  exit 2
fi

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
"$binary" --json ${only:+--only "$only"} | tee >(cat >&2) >>"$lines"
for script in "$@"; do
  # Each mode in a process of its own: what one compiled slows the next.
  for mode in $modes; do
    which=$only
    if [ "$mode" != eager ]; then which=${only_compiled:-$only}; fi
    python3 "$script" "$mode" ${which:+--only "$which"} |
      { grep '^{' || true; } | tee >(cat >&2) >>"$lines"
  done
done
exec python3 "$(dirname "$0")/compare_gpu.py" "$lines"

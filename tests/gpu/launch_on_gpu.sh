#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the unchanged examples on a GPU: in one process, and in two processes
# that share the GPU through Gloo and through NCCL. All runs must reach the same
# accuracy.
#
#     launch_on_gpu.sh <accelerate> <folder of the examples>
set -euo pipefail
if [ ! -e /dev/nvidiactl ]; then
  echo "skipped: there is no GPU"
  exit 77
fi
accelerate=$1
examples=$2
export CUDA_VISIBLE_DEVICES=0 NO_COLOR=1
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fail() {
  cat "$log"
  echo "error: $1" >&2
  exit 1
}

# launch <expected text> <arguments>...
launch() {
  local text=$1
  shift
  "$accelerate" launch "$@" >"$log" 2>&1 || fail "exit status $? of: launch $*"
  grep -q -- "$text" "$log" || fail "no \`$text\` in the output of: launch $*"
}

# Prints the accuracy of the last epoch.
accuracy() { sed -n 's/.*accuracy[^0-9]*\([0-9.]*\).*/\1/p' "$log" | tail -1; }

launch '564/564' --num_processes 1 "$examples/train"
ACCELERATE_BACKEND=gloo launch '282/282' --num_processes 2 "$examples/train"
launch '282/282' --ranks_per_gpu 2 "$examples/train"

if "$accelerate" launch --num_processes 2 "$examples/train" >"$log" 2>&1; then
  fail "launch accepted two processes on one GPU over NCCL"
fi
grep -q '2 processes on this machine need one GPU each, but the machine has 1 GPU' "$log" ||
  fail "the error does not state the reason"

launch accuracy --num_processes 1 "$examples/nlp_example" --num_epochs 6
one=$(accuracy)
ACCELERATE_BACKEND=gloo launch accuracy --num_processes 2 "$examples/nlp_example" --num_epochs 6
gloo=$(accuracy)
launch accuracy --ranks_per_gpu 2 "$examples/nlp_example" --num_epochs 6
nccl=$(accuracy)
echo "accuracy: $one with one process; with two, $gloo over Gloo and $nccl over NCCL"
python3 - "$one" "$gloo" "$nccl" <<'END' || fail "the runs did not learn the same"
import sys
accuracies = [float(text) for text in sys.argv[1:]]
sys.exit(not (min(accuracies) > 0.9 and max(accuracies) - min(accuracies) < 0.05))
END

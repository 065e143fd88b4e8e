#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An example on two processes of one job:
#
#   mpirun_example.sh <mpirun> <program>
#
# Fails unless mpirun ends well and the result is good. Only the main process
# of a job prints, so two lines are two jobs of one process each, and the steps
# of the progress bar are half as many as alone.
set -eu
mpirun=$1
program=$2

steps_of() {
  tr '\r' '\n' < "$1" | sed -n 's|.*[^0-9]\([0-9][0-9]*\)/\([0-9][0-9]*\) .*|\2|p' |
    tail -n 1
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
timeout 60 "$program" > "$folder/alone.out" 2> "$folder/alone.err"
timeout 60 "$mpirun" --allow-run-as-root --oversubscribe -n 2 "$program" \
  > "$folder/out" 2> "$folder/err" || {
  echo "mpirun exited with code $?"
  cat "$folder/err"
  exit 1
}
cat "$folder/out"
lines=$(grep -cE 'accuracy on 400 points: (9[0-9]|100)[.0-9]* %' "$folder/out" || true)
if [ "$lines" -ne 1 ]; then
  echo "$lines good results instead of one: not one job of two processes"
  exit 1
fi
alone=$(steps_of "$folder/alone.err")
both=$(steps_of "$folder/err")
echo "steps: $alone alone, $both on two processes"
[ -n "$both" ] && [ "$alone" -eq $((2 * both)) ]

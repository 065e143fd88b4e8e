#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs an example on two processes of one job:
#
#   mpirun_example.sh <mpirun> <program>
#
# Fails unless mpirun succeeds and the accuracy is high enough. Only the main
# process of a job prints, so two lines would mean two jobs of one process each.
# The progress bar must have half as many steps as with one process.
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
  echo "expected one good result, got $lines: the processes did not form one job"
  exit 1
fi
alone=$(steps_of "$folder/alone.err")
both=$(steps_of "$folder/err")
echo "steps: $alone alone, $both on two processes"
[ -n "$both" ] && [ "$alone" -eq $((2 * both)) ]

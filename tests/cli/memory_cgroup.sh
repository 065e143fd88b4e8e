#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command in a cgroup with 64 MB of memory; exits with 77 if this machine
# does not allow it.
#   memory_cgroup.sh <command>...
limit=67108864
name=accelerate-test-$$
self() { sed -n "s/^$1//p" /proc/self/cgroup | head -n 1; }

# Tries cgroup version 2 first. The memory controller must be enabled for this
# process's cgroup.
for root in /sys/fs/cgroup /sys/fs/cgroup/unified; do
  group=$root$(self '0::')/$name
  if [ -e "$root/cgroup.controllers" ] && mkdir "$group" 2>/dev/null; then
    if echo $limit 2>/dev/null >"$group/memory.max"; then
      echo 0 2>/dev/null >"$group/memory.swap.max"
      break
    fi
    rmdir "$group"
  fi
  group=
done
if [ -z "$group" ]; then
  group=/sys/fs/cgroup/memory$(self '[0-9]*:memory:')/$name
  mkdir "$group" 2>/dev/null || exit 77
  echo $limit 2>/dev/null >"$group/memory.limit_in_bytes" || exit 77
  echo $limit 2>/dev/null >"$group/memory.memsw.limit_in_bytes"
fi
sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
code=$?
tries=0
until rmdir "$group" 2>/dev/null || [ $tries -ge 10 ]; do
  tries=$((tries + 1))
  sleep 0.1
done
exit $code

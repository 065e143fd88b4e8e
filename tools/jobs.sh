#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints how many compilers may run in parallel: one per core, and no more than
# fit in memory. Compiling LibTorch's heavier headers takes up to 1.3 GB, hence
# 1.5 GB per compiler.
set -eu

gb_per_job_x10=15

available_kb() {
  awk '/^MemAvailable:/ { print $2 }' /proc/meminfo
}

# The memory limit of the container, if there is one.
limit_kb() {
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null ||
    cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || echo max)
  case $limit in
    max | "") echo 999999999 ;;
    *) echo $((limit / 1024)) ;;
  esac
}

memory_kb=$(available_kb)
limit=$(limit_kb)
if [ "$limit" -lt "$memory_kb" ]; then memory_kb=$limit; fi
jobs=$((memory_kb / (gb_per_job_x10 * 104858)))
cores=$(nproc)
if [ "$jobs" -gt "$cores" ]; then jobs=$cores; fi
if [ "$jobs" -lt 1 ]; then jobs=1; fi
echo "$jobs"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Replaces the commands that tools/setup.sh calls. $MACHINE is a folder with the
# state of the fake machine: the `log` of calls, the `installed` packages,
# `lists` (after apt-get has fetched the package lists), `unknown` packages that
# are in no list, and commands in `bin/`.
set -euo pipefail

name=$(basename "$0")
echo "$name $*" >>"$MACHINE/log"

# provide <command>: adds a command to the fake machine.
provide() { ln -sf "$FAKE" "$MACHINE/bin/$1"; }

install_package() {
  echo "$1=installed" >>"$MACHINE/installed"
  case $1 in
    g++ | g++-12 | cmake) provide "$1" ;;
    ninja-build) provide ninja ;;
    python3-pip) touch "$MACHINE/pip" ;;
    clang-19) provide clang++-19 ;;
    libclang-rt-*)
      mkdir -p "$MACHINE/clang/lib/linux"
      touch "$MACHINE"/clang/lib/linux/libclang_rt.{asan,fuzzer}-x86_64.a
      ;;
  esac
}

apt_get() {
  if [ "$1" = update ]; then
    touch "$MACHINE/lists"
    return
  fi
  [ -e "$MACHINE/lists" ] || exit 100
  [ "$2" != --simulate ] || return 0
  for argument in "${@:2}"; do
    case $argument in -*) ;; *) install_package "$argument" ;; esac
  done
}

apt_policy() {
  if [ ! -e "$MACHINE/lists" ]; then return; fi
  if grep -qx "$1" "$MACHINE/unknown" 2>/dev/null; then return; fi
  printf '%s:\n  Installed: (none)\n  Candidate: 1.0\n' "$1"
}

# download_wheel … --dest <folder> … <requirement>
download_wheel() {
  local requirement=${*: -1} folder
  while [ "$1" != --dest ]; do shift; done
  folder=$2
  if [ "$(cat "$MACHINE/killed_in" 2>/dev/null)" = "$requirement" ]; then
    rm "$MACHINE/killed_in"
    echo half >"$folder/half.whl.part"
    kill -9 "$PPID" $$
  fi
  case $requirement in
    torch==*) echo torch >"$folder/torch-${requirement#*==}-cp312.whl" ;;
    nvidia-cuda-runtime*) echo runtime >"$folder/nvidia_cuda_runtime-13.0.1-py3.whl" ;;
    nvidia-cuda-cupti*) echo cupti >"$folder/nvidia_cuda_cupti-13.0.1-py3.whl" ;;
    nvidia-*)
      version=${requirement#*==}
      name=${requirement%%==*}
      echo "${name#nvidia-}" >"$folder/${name//-/_}-${version/\*/0}-py3.whl"
      ;;
    cmake*) echo cmake >"$folder/cmake-3.31.0-py3.whl" ;;
    xla-cpu-pjrt*) cat "$MACHINE/pjrt" >"$folder/xla_cpu_pjrt-${requirement#*==}-py3.whl" ;;
  esac
}

soname() {
  case $1 in
    cublas) echo libcublas.so.13 ;;
    cufile) echo libcufile.so.0 ;;
    cudnn-cu13) echo libcudnn.so.9 ;;
    nccl-cu13) echo libnccl.so.2 ;;
    cusparselt-cu13) echo libcusparseLt.so.0 ;;
    nvshmem-cu13) echo libnvshmem_host.so.3 ;;
  esac
}

# unzip <wheel> <folder>
unzip() {
  local kind
  kind=$(cat "$1")
  [ "$kind" != damaged ] || exit 1
  case $kind in
    torch)
      mkdir -p "$2"/torch-2.11.0.dist-info "$2"/torch/lib
      touch "$2"/torch/lib/lib{torch_cpu,c10}.so
      ;;
    cmake)
      mkdir -p "$2/cmake/data/bin"
      cp "$FAKE" "$2/cmake/data/bin/cmake"
      cp "$FAKE" "$2/cmake/data/bin/ctest"
      ;;
    pjrt)
      mkdir -p "$2"/xla_cpu_pjrt-0.0.1.dist-info "$2"/xla_plugins/xla_cpu_pjrt/include
      touch "$2"/xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h
      ;;
    cublas | cufile) mkdir -p "$2/nvidia/cu13/lib" && touch "$2/nvidia/cu13/lib/$(soname "$kind")" ;;
    *-cu13)
      mkdir -p "$2/nvidia/${kind%-cu13}/lib"
      touch "$2/nvidia/${kind%-cu13}/lib/$(soname "$kind")"
      ;;
    *)
      mkdir -p "$2/nvidia/cu13/lib"
      touch "$2"/nvidia/cu13/lib/lib{cudart,cupti}.so.13
      ;;
  esac
}

case "$name $*" in
  "id -u") cat "$MACHINE/user" ;;
  "sudo -n "*) "${@:2}" ;;
  "apt-get "*) apt_get "$@" ;;
  "apt-cache policy "*) apt_policy "$2" ;;
  "dpkg-query "*) cat "$MACHINE/installed" ;;
  "g++ "*) echo 12.2.0 ;;
  "g++-12 "*) echo 12.3.0 ;;
  "clang++-"*" -print-resource-dir") echo "$MACHINE/clang" ;;
  "cmake --version") echo "cmake version 3.25.1" ;;
  "python3 -m pip --version") [ -e "$MACHINE/pip" ] ;;
  "python3 -m pip download "*) download_wheel "$@" ;;
  "python3 -m pip hash "*)
    [ "$(cat "$4")" != pjrt ] || sed -n 's/^readonly pjrt_sha256=/--hash=sha256:/p' "$SETUP"
    ;;
  "python3 -m zipfile -e "*) unzip "$4" "$5" ;;
  *)
    echo "fake_command.sh: unexpected call: $name $*" >&2
    exit 99
    ;;
esac

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that a build needs and that this machine does not have
# yet.
#
#   tools/setup.sh demo    what `make demo` and `make build` need
#   tools/setup.sh full    the same plus what the tests need: Open MPI and, if
#                          the distribution has them, clang-repl 19 and clang's
#                          sanitizers
#   tools/setup.sh fuzz    what `make fuzz` needs: the packages for `demo` plus
#                          clang with libFuzzer and the sanitizers
#   tools/setup.sh slurm   the same as demo plus a Slurm for `make test-slurm`
#
# The script keeps no state: each call checks which packages and folders exist.
# The next call therefore finishes what an interrupted call left undone. A call
# with nothing to do takes milliseconds and needs no network.
#
# TORCH_DIR=<folder>        use this LibTorch instead of downloading one
# CUDA=1                    install the libraries that LibTorch needs for CUDA
#                           (2 GB); the default on a machine with a GPU
#                           (CUDA=0: never install them)
# XLA=0                     do not install PJRT's header and CPU plugin (60 MB),
#                           which the XLA device and its tests need
# ACCELERATE_PACKAGES=skip  install no packages from the distribution
set -euo pipefail

readonly torch_version=2.11.0
# libtorch_cpu.so in the PyPI wheel needs these two libraries to load.
readonly requirements=(
  "torch==$torch_version" "nvidia-cuda-runtime==13.*" "nvidia-cuda-cupti==13.*")
# libtorch_cuda.so in that wheel needs these, in the releases it was built with.
readonly cuda_requirements=(
  "nvidia-cublas==13.1.0.*" "nvidia-cufft==12.0.*" "nvidia-cufile==1.15.1.*"
  "nvidia-curand==10.4.0.*" "nvidia-cusolver==12.0.4.*" "nvidia-cusparse==12.6.3.*"
  "nvidia-nvjitlink==13.0.*" "nvidia-cuda-nvrtc==13.0.*" "nvidia-nvtx==13.0.*"
  "nvidia-cudnn-cu13==9.19.0.56" "nvidia-cusparselt-cu13==0.8.0"
  "nvidia-nccl-cu13==2.28.9" "nvidia-nvshmem-cu13==3.4.5")
# PJRT's C header and a CPU plugin. A plugin is loaded into the process, so its
# content is fixed, too.
readonly pjrt_version=0.0.1
readonly pjrt_sha256=55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc
readonly min_gcc=12
readonly min_cmake=3.25

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly deps=${ACCELERATE_DEPS:-$root/.deps}
readonly os_release=${ACCELERATE_OS_RELEASE:-/etc/os-release}
readonly nvidia_driver=${ACCELERATE_NVIDIA_DRIVER:-/proc/driver/nvidia/version}
PATH=$deps/bin:$PATH

say() { printf '%s\n' "setup: $*" >&2; }

# fail <what happened> <hint>...
fail() {
  printf '%s\n' "error: $1" >&2
  shift
  for hint in "$@"; do printf '%s\n' "hint: $hint" >&2; done
  exit 1
}

# at_least <version> <minimum>
at_least() { [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

distribution() {
  # shellcheck disable=SC1090
  (. "$os_release" 2>/dev/null && echo "${ID:-unknown}-${VERSION_ID:-}") ||
    echo unknown
}

# ---- what is missing ------------------------------------------------------

has_compiler() {
  local name version
  for name in g++ g++-12 g++-13 g++-14 g++-15; do
    version=$("$name" -dumpfullversion -dumpversion 2>/dev/null) || continue
    if at_least "$version" $min_gcc; then return 0; fi
  done
  return 1
}

# Prints the clang of the preset `dev`; fails if there is none.
find_clang() {
  local name
  for name in clang++-19 clang++-20 clang++-21; do
    if command -v "$name"; then return 0; fi
  done
  return 1
}

# has_runtime <clang> <name>: whether that clang can link the runtime `name`.
has_runtime() {
  local resources
  resources=$("$1" -print-resource-dir) || return 1
  compgen -G "$resources/lib/*/libclang_rt.$2*.a" >/dev/null
}

# Prints the packages that fuzzing needs and this machine does not have.
missing_fuzz_packages() {
  local clang
  if ! clang=$(find_clang); then
    printf '%s\n' clang-19 libclang-rt-19-dev
  elif ! has_runtime "$clang" fuzzer || ! has_runtime "$clang" asan; then
    echo "libclang-rt-${clang##*-}-dev"
  fi
}

has_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*//p') || return 1
  [ -n "$version" ] && at_least "$version" $min_cmake
}

has_pip() { python3 -m pip --version >/dev/null 2>&1; }

# The CMake of Ubuntu 22.04 is too old; PyPI has a newer version.
cmake_comes_from_pypi() { [ "$(distribution)" = ubuntu-22.04 ]; }

has_libtorch() {
  local site=$1 name
  [ -d "$site/torch-$torch_version.dist-info" ] || return 1
  for name in torch/lib/libtorch_cpu.so torch/lib/libc10.so \
    nvidia/cu13/lib/libcudart.so.13 nvidia/cu13/lib/libcupti.so.13; do
    [ -e "$site/$name" ] || return 1
  done
}

has_cuda_libraries() {
  local name
  for name in libcublas.so.13 libcudnn.so.9 libnccl.so.2 libcufile.so.0 \
    libcusparseLt.so.0 libnvshmem_host.so.3; do
    [ -e "$deps/python/nvidia/cu13/lib/$name" ] || return 1
  done
}

wants_cuda() {
  [ -z "${TORCH_DIR:-}" ] || return 1
  case ${CUDA:-} in
    "") [ -e "$nvidia_driver" ] ;;
    0) return 1 ;;
    *) return 0 ;;
  esac
}

lacks_cuda() { wants_cuda && ! has_cuda_libraries; }

has_pjrt() {
  [ -e "$deps/pjrt/xla_cpu_pjrt-$pjrt_version.dist-info" ] &&
    [ -e "$deps/pjrt/xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h" ]
}

# The wheel exists for this architecture only.
lacks_pjrt() {
  [ -z "${TORCH_DIR:-}" ] && [ "${XLA:-}" != 0 ] && [ "$(uname -m)" = x86_64 ] &&
    ! has_pjrt
}

wants_pip() {
  { [ -z "${TORCH_DIR:-}" ] && ! has_libtorch "$deps/python"; } || lacks_cuda || lacks_pjrt ||
    { cmake_comes_from_pypi && ! has_cmake; }
}

# Whether the package lists of this machine offer a version of a package.
offers() {
  grep -q 'Candidate: [0-9]' <<<"$(apt-cache policy "$1" 2>/dev/null)"
}

# Prints the packages in a set that are not installed, one per line.
missing_packages() {
  local libraries=(
    nlohmann-json3-dev libcli11-dev libyaml-cpp-dev libssl-dev
    libutf8proc-dev libonig-dev libcurl4-openssl-dev libsqlite3-dev libxxhash-dev
    libgtest-dev libgmock-dev libbenchmark-dev libzmq3-dev)
  if [ "$1" = full ]; then
    libraries+=(libopenmpi-dev openmpi-bin)
    # For C++ notebooks; not every distribution release has this package.
    if ! command -v clang-repl-19 >/dev/null && offers clang-tools-19; then
      libraries+=(clang-tools-19)
    fi
    # `make asan` takes 12 minutes with clang, and 18 minutes with g++.
    if offers libclang-rt-19-dev; then
      libraries+=(libclang-rt-19-dev)
    fi
  fi

  if [ "$1" = slurm ]; then
    libraries+=(slurm-wlm munge iproute2)
  fi

  if ! has_compiler; then
    if [ "$(distribution)" = ubuntu-22.04 ]; then echo g++-12; else echo g++; fi
  fi
  if ! has_cmake && ! cmake_comes_from_pypi; then echo cmake; fi
  if ! command -v ninja >/dev/null; then echo ninja-build; fi
  if wants_pip && ! has_pip; then echo python3-pip; fi
  if [ "$1" = fuzz ]; then missing_fuzz_packages; fi

  local installed package
  # dpkg-query fails if one of the names is unknown; this error is ignored.
  installed=$(dpkg-query -W -f '${Package}=${db:Status-Status}\n' \
    "${libraries[@]}" 2>/dev/null || true)
  for package in "${libraries[@]}"; do
    grep -qx "$package=installed" <<<"$installed" || echo "$package"
  done
}

# ---- packages from the distribution ---------------------------------------

# Prints the prefix that runs a command as root; fails if there is no such
# prefix.
become_root() {
  if [ "$(id -u)" = 0 ]; then
    return 0
  elif ! command -v sudo >/dev/null; then
    return 1
  elif [ -t 0 ]; then
    echo sudo
  else
    echo "sudo -n"
  fi
}

apt_install() {
  local as_root=$1
  shift
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "$@" >&2
}

install_packages() {
  [ "${ACCELERATE_PACKAGES:-}" = skip ] && return
  local packages=() as_root line
  mapfile -t packages < <(missing_packages "$1")
  [ "${#packages[@]}" -eq 0 ] && return

  line="apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
  command -v apt-get >/dev/null || fail \
    "this machine has no apt-get; these Debian packages are missing: ${packages[*]}" \
    "install their equivalents, then try again with ACCELERATE_PACKAGES=skip"
  as_root=$(become_root) || fail \
    "these packages are missing, and installing them needs root or sudo: ${packages[*]}" \
    "run this command as root, then try again:" "$line"

  say "installing ${packages[*]}"
  # Fetching the package lists is slow, so first try with the current lists.
  if apt-get install --simulate "${packages[@]}" >/dev/null 2>&1 &&
    apt_install "$as_root" "${packages[@]}"; then
    return
  fi
  # shellcheck disable=SC2086
  { $as_root apt-get update >&2 && mapfile -t packages < <(missing_packages "$1") &&
    apt_install "$as_root" "${packages[@]}"; } ||
    fail "apt-get could not install: ${packages[*]}" \
      "run this command as root to see why:" "$line"
}

# ---- wheels from PyPI -----------------------------------------------------

# Prints pip's options for every platform tag that this C library supports.
wheel_platforms() {
  local arch minor
  arch=$(uname -m)
  minor=$(getconf GNU_LIBC_VERSION | sed 's/.*2\.//')
  for tag in $(seq -f manylinux_2_%.0f "$minor" -1 5) \
    manylinux2014 manylinux2010 manylinux1; do
    printf '%s\n' --platform "${tag}_$arch"
  done
}

# download <requirement> <file pattern>: downloads a wheel and then moves it to
# .deps/wheels, so every wheel there is complete.
download() {
  local requirement=$1 pattern=$2 part=$deps/wheels/part platforms=()
  if compgen -G "$deps/wheels/$pattern" >/dev/null; then return; fi
  rm -rf "$part"
  mkdir -p "$part"
  mapfile -t platforms < <(wheel_platforms)
  say "downloading $requirement"
  # A fixed Python version, since only the C++ libraries in the wheel matter
  # and must not depend on the Python installed here. TMPDIR: /tmp is often too
  # small for 1 GB.
  TMPDIR=$part python3 -m pip download --quiet --no-deps --dest "$part" \
    --only-binary=:all: --implementation cp --python-version 3.12 \
    --abi cp312 "${platforms[@]}" "$requirement" >&2 || fail \
    "could not download $requirement from the Python package index" \
    "check the network connection, then try again; complete downloads are kept"
  mv "$part"/*.whl "$deps/wheels/"
  rm -rf "$part"
}

# unpack <folder> <wheel>...: unpacks wheels into a folder. An interruption
# leaves the folder either complete or absent.
unpack() {
  local folder=$1 wheel
  shift
  rm -rf "$folder.part"
  mkdir -p "$folder.part"
  for wheel in "$@"; do
    # zipfile verifies checksums; a damaged wheel must not be used again.
    python3 -m zipfile -e "$wheel" "$folder.part" || {
      rm -f "$wheel"
      fail "$wheel is damaged and was removed" "run the command again"
    }
  done
  if [ -e "$folder" ]; then
    rm -rf "$folder.old"
    mv "$folder" "$folder.old"
  fi
  mv "$folder.part" "$folder"
  rm -rf "$folder.old"
}

provide_cmake() {
  has_cmake && return
  cmake_comes_from_pypi || fail \
    "CMake $min_cmake or later is not installed" "install it, then try again"
  download "cmake>=$min_cmake,<4" "cmake-*.whl"
  unpack "$deps/cmake" "$deps"/wheels/cmake-*.whl
  chmod +x "$deps"/cmake/cmake/data/bin/*
  mkdir -p "$deps/bin"
  ln -sfn ../cmake/cmake/data/bin/cmake "$deps/bin/cmake"
  ln -sfn ../cmake/cmake/data/bin/ctest "$deps/bin/ctest"
  rm -f "$deps"/wheels/cmake-*.whl
}

check_torch_dir() {
  [ -e "$TORCH_DIR/lib/libtorch_cpu.so" ] || fail \
    "TORCH_DIR is \`$TORCH_DIR\`, which has no lib/libtorch_cpu.so" \
    "set TORCH_DIR to the folder that holds LibTorch's include/ and lib/"
}

provide_libtorch() {
  if [ -n "${TORCH_DIR:-}" ]; then
    check_torch_dir
    return
  fi
  has_libtorch "$deps/python" && return
  has_pip || fail "\`python3 -m pip\` does not work" \
    "install python3-pip, then try again"

  local requirement
  for requirement in "${requirements[@]}"; do
    local name=${requirement%%==*} version=${requirement##*==}
    download "$requirement" "${name//-/_}-$version-*.whl"
  done
  say "unpacking LibTorch $torch_version"
  unpack "$deps/python" "$deps"/wheels/{torch,nvidia_cuda_runtime,nvidia_cuda_cupti}-*.whl
  has_libtorch "$deps/python" || fail \
    "the wheels do not contain LibTorch $torch_version with its CUDA runtime" \
    "remove $deps and try again"
  rm -rf "$deps/wheels"
}

# Unpacks the CUDA libraries into their own folder and links them into the
# folder where LibTorch looks for them.
provide_cuda_libraries() {
  lacks_cuda || return 0
  if [ ! -d "$deps/cuda" ]; then
    local requirement wheels=()
    for requirement in "${cuda_requirements[@]}"; do
      local name=${requirement%%==*} version=${requirement##*==}
      download "$requirement" "${name//-/_}-$version-*.whl"
      mapfile -t -O "${#wheels[@]}" wheels < <(
        compgen -G "$deps/wheels/${name//-/_}-$version-*.whl")
    done
    say "unpacking the CUDA libraries"
    unpack "$deps/cuda" "${wheels[@]}"
    rm -rf "$deps/wheels"
  fi
  local library
  for library in "$deps"/cuda/nvidia/*/lib/*.so*; do
    ln -sfn "$library" "$deps/python/nvidia/cu13/lib/"
  done
  has_cuda_libraries || fail \
    "the wheels do not contain the libraries that LibTorch needs for CUDA" \
    "remove $deps/cuda and try again"
}

provide_pjrt() {
  lacks_pjrt || return 0
  local wheel
  download "xla-cpu-pjrt==$pjrt_version" "xla_cpu_pjrt-$pjrt_version-*.whl"
  wheel=$(compgen -G "$deps/wheels/xla_cpu_pjrt-$pjrt_version-*.whl")
  python3 -m pip hash "$wheel" | grep -q "sha256:$pjrt_sha256\$" || {
    rm -f "$wheel"
    fail "$wheel is not the file that this script expects, and was removed" \
      "run the command again, or pass XLA=0 to build without the XLA device"
  }
  say "unpacking xla-cpu-pjrt $pjrt_version"
  unpack "$deps/pjrt" "$wheel"
  rm -rf "$deps/wheels"
}

main() {
  local set=${1:-full}
  case $set in
    demo | full | fuzz | slurm) ;;
    *) fail "\`$set\` is not a set of packages" "use demo, full, fuzz or slurm" ;;
  esac
  install_packages "$set"
  if ! lacks_cuda && ! lacks_pjrt && has_cmake && { [ -n "${TORCH_DIR:-}" ] || has_libtorch "$deps/python"; }; then
    if [ -n "${TORCH_DIR:-}" ]; then check_torch_dir; fi
    return
  fi
  # Takes a lock, because two calls at the same time would download into each
  # other's folders.
  mkdir -p "$deps"
  exec 9>"$deps/lock"
  if ! flock -n 9; then
    say "another setup is running in $deps; waiting up to 30 minutes for it"
    flock -w 1800 9 || fail "another setup is still running in $deps after 30 minutes" \
      "stop the other setup, then try again"
  fi
  provide_cmake
  provide_libtorch
  provide_cuda_libraries
  provide_pjrt
}

main "$@"

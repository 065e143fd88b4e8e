// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts("accelerate " ACCELERATE_VERSION);
    return 0;
  }
  std::fputs("usage: accelerate --version\n", stderr);
  return 2;
}

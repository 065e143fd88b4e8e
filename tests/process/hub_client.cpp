// SPDX-License-Identifier: Apache-2.0
// Prints the folder of a model: `hub_client org/model`.
#include <exception>
#include <iostream>

#include "accelerate/error.h"
#include "transformers/hub.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    return 2;
  }
  try {
    std::cout << transformers::hub::resolve_folder(argv[1]).string() << "\n";
    return 0;
  } catch (const accelerate::Error& error) {
    std::cerr << error.what() << "\nhint: " << error.hint() << "\n";
    return error.exit_code();
  }
}

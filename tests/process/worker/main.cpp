// SPDX-License-Identifier: Apache-2.0
// One rank of a test with real processes; see scenarios.h.
#include <iostream>

#include "process/worker/scenarios.h"

namespace {

accelerate::WorkerOptions parse(const std::vector<std::string>& arguments) {
  using std::chrono::milliseconds;
  const auto argument = [&](std::size_t i, const char* default_value) {
    return i < arguments.size() ? arguments[i] : std::string(default_value);
  };
  accelerate::WorkerOptions options;
  options.scenario = argument(1, "");
  const std::string backend = argument(2, "auto");
  if (backend == "network") {
    options.group.backend = accelerate::Backend::gloo;
    options.group.shared_memory = false;
    options.group.network_interface = "lo";
  } else if (backend != "auto") {
    options.group.backend = accelerate::parse_backend(backend);
  }
  options.group.timeout = milliseconds(std::stoi(argument(3, "20000")));
  if (arguments.size() > 4) {
    options.group.warn_after = milliseconds(std::stoi(arguments[4]));
  }
  options.argument = argument(5, "");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = parse({argv, argv + argc});
    accelerate::scenarios().at(options.scenario)(options);
    return 0;
  } catch (const std::exception& error) {
    std::cout << "uncaught: " << error.what() << std::endl;
    return 1;
  }
}

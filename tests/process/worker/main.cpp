// SPDX-License-Identifier: Apache-2.0
// One rank of a test with real processes; see scenarios.h.
#include <iostream>

#include "process/worker/scenarios.h"

namespace {

accelerate::WorkerOptions parse(const std::vector<std::string>& words) {
  using std::chrono::milliseconds;
  const auto word = [&](std::size_t i, const char* otherwise) {
    return i < words.size() ? words[i] : std::string(otherwise);
  };
  accelerate::WorkerOptions options;
  options.scenario = word(1, "");
  const std::string backend = word(2, "auto");
  if (backend == "network") {
    options.group.backend = accelerate::Backend::gloo;
    options.group.shared_memory = false;
    options.group.network_interface = "lo";
  } else if (backend != "auto") {
    options.group.backend = accelerate::parse_backend(backend);
  }
  options.group.timeout = milliseconds(std::stoi(word(3, "20000")));
  if (words.size() > 4) {
    options.group.warn_after = milliseconds(std::stoi(words[4]));
  }
  options.argument = word(5, "");
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

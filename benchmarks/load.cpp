// SPDX-License-Identifier: Apache-2.0
// Loads a checkpoint into a model. compare_loading.py also runs Python.
//
//     build/bin/benchmarks/load make <folder> MEGABYTES    writes a GPT-2
//     build/bin/benchmarks/load model <folder>  loads it and runs one token
//     build/bin/benchmarks/load file <file>     maps it and touches each byte,
//                                               compared with reading it
//     build/bin/benchmarks/load --quick
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <time.h>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "accelerate/json.h"
#include "accelerate/safetensors.h"
#include "support/arguments.h"
#include "support/report.h"
#include "transformers/transformers.h"

namespace {

namespace fs = std::filesystem;
using accelerate::Json;
using accelerate::benchmarks::seconds_of;

constexpr std::int64_t kWidth = 768;
// Parameters of a layer at this width.
constexpr std::int64_t kLayer = 7'100'000;

void make_model(const fs::path& folder, std::int64_t megabytes) {
  const std::int64_t layers = std::max<std::int64_t>(
      1, (megabytes * 1000 * 1000 / 4 - 1000 * kWidth + kLayer / 2) / kLayer);
  transformers::AutoModelForCausalLM::from_config(
      transformers::GPT2Config{
          .vocab_size = 1000,
          .n_embd = kWidth,
          .n_layer = megabytes == 0 ? 1 : layers})
      ->save_pretrained(folder);
}

double peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

void load_model(const std::string& folder) {
  const double base = peak_memory();
  const double used_before = processor_seconds();
  const auto start = std::chrono::steady_clock::now();
  const auto model =
      transformers::AutoModelForCausalLM::from_pretrained(folder);
  const double load =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  at::NoGradGuard no_grad;
  (void)model({{"input_ids", at::zeros({1, 1}, at::kLong)}}).logits;
  const double used =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  std::cout << Json::object({{"load", load},
                             {"load_and_run", used},
                             {"processor", processor_seconds() - used_before},
                             {"memory", peak_memory() - base}})
                   .dump()
            << "\n";
}

// A checksum of a file, to ensure that each byte was read.
std::int64_t sum_of(const at::Tensor& tensor) {
  const auto* words = static_cast<const std::int64_t*>(tensor.data_ptr());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < tensor.nbytes() / sizeof(std::int64_t); ++i) {
    sum ^= words[i];
  }
  return sum;
}

std::int64_t mapped(const fs::path& path) {
  std::int64_t sum = 0;
  for (const auto& [name, tensor] : accelerate::load_safetensors(path)) {
    sum ^= sum_of(tensor);
  }
  return sum;
}

std::int64_t read(const fs::path& path) {
  const auto size = static_cast<std::int64_t>(fs::file_size(path));
  const at::Tensor buffer = at::empty({size}, at::kByte);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  auto* to = static_cast<char*>(buffer.mutable_data_ptr());
  std::int64_t done = 0;
  while (done < size) {
    const auto got =
        ::read(fd, to + done, static_cast<std::size_t>(size - done));
    if (got <= 0) {
      break;
    }
    done += got;
  }
  ::close(fd);
  return sum_of(buffer);
}

void load_file(const fs::path& path, int repeats) {
  const double mapping = seconds_of(repeats, [&] { (void)mapped(path); });
  const double reading = seconds_of(repeats, [&] { (void)read(path); });
  std::cout << Json::object({{"mapped", mapping},
                             {"read", reading},
                             {"ratio", mapping / reading}})
                   .dump()
            << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  accelerate::benchmarks::check_arguments(
      argc,
      argv,
      {.text = "load make <folder> MEGABYTES\n"
               "       load model <folder>\n"
               "       load file <file>\n"
               "       load --quick\n\n"
               "Loads a checkpoint into a model.",
       .takes_positional = true});
  at::set_num_threads(1);
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "make" && argc == 4) {
    make_model(argv[2], std::stoll(argv[3]));
  } else if (command == "model" && argc == 3) {
    load_model(argv[2]);
  } else if (command == "file" && argc == 3) {
    load_file(argv[2], 5);
  } else if (command == "--quick") {
    const fs::path folder = fs::temp_directory_path() /
                            ("load_benchmark_" + std::to_string(::getpid()));
    make_model(folder, 0);
    load_model(folder.string());
    load_file(folder / "model.safetensors", 2);
    fs::remove_all(folder);
  } else {
    std::cerr
        << "usage: load {make <folder> MB | model <folder> | file <file>}\n";
    return 2;
  }
}

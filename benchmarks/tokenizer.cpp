// SPDX-License-Identifier: Apache-2.0
// Measures how fast a tokenizer is loaded and encodes text, on one or more
// threads.
//
//   build/bin/benchmarks/tokenizer load <tokenizer.json>
//   build/bin/benchmarks/tokenizer encode <tokenizer.json> <texts>
//       [--threads 1] [--repeats 5] [--offsets] [--ids <file>]
//
// `texts` contains texts, each followed by a zero byte. Prints one JSON object;
// `first_seconds` is the time of the first call, whose caches are empty.
// benchmarks/compare_tokenizers.py and compare_loading.py compare this with
// Hugging Face `tokenizers`.
#include "transformers/tokenizer.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <time.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "support/arguments.h"
#include "support/report.h"

namespace {

using accelerate::Json;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

// Returns the median time of `repeats` runs. With one thread, this is CPU time,
// which other load on the machine does not affect; with more threads, it is
// wall time.
template <typename Work>
double seconds_of(int repeats, int threads, Work work) {
  if (threads != 1) {
    return accelerate::benchmarks::seconds_of(repeats, work);
  }
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const double begin = cpu_seconds();
    work();
    seconds.push_back(cpu_seconds() - begin);
  }
  return accelerate::benchmarks::median(seconds);
}

std::vector<std::string> read_texts(const std::string& path) {
  const std::string all = accelerate::read_file(path, std::size_t{1} << 30);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\0', at), all.size());
    texts.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return texts;
}

std::string flag(
    int argc, char** argv, const std::string& name, const char* default_value) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == name) {
      return argv[i + 1];
    }
  }
  return default_value;
}

void write_ids(
    const std::string& path, const transformers::BatchEncoding& batch) {
  std::ofstream out(path, std::ios::binary);
  for (const auto& row : batch) {
    const auto size = static_cast<std::int64_t>(row.size());
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
    out.write(
        reinterpret_cast<const char*>(row.input_ids.data()),
        static_cast<std::streamsize>(row.size() * sizeof(std::int64_t)));
  }
}

Json encode(int argc, char** argv) {
  const auto tokenizer = transformers::AutoTokenizer::from_pretrained(argv[2]);
  const std::vector<std::string> texts = read_texts(argv[3]);
  transformers::TokenizerCallOptions options;
  options.num_threads = std::stoi(flag(argc, argv, "--threads", "1"));
  options.return_offsets_mapping =
      accelerate::benchmarks::has_flag(argc, argv, "--offsets");
  std::size_t bytes = 0;
  for (const std::string& text : texts) {
    bytes += text.size();
  }
  const std::string ids = flag(argc, argv, "--ids", "");
  if (!ids.empty()) {
    write_ids(ids, tokenizer(texts, options));
  }
  const int repeats = std::stoi(flag(argc, argv, "--repeats", "5"));
  const auto encode_all = [&] {
    const auto batch = tokenizer(texts, options);
    if (batch.size() != texts.size()) {
      std::abort();
    }
  };
  const double first = seconds_of(1, options.num_threads, encode_all);
  const double seconds = seconds_of(repeats, options.num_threads, encode_all);
  return Json::object(
      {{"first_seconds", first},
       {"seconds", seconds},
       {"bytes", bytes},
       {"mib_per_second", static_cast<double>(bytes) / 1048576 / seconds}});
}

// Peak memory of this process in bytes.
double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::stod(line.substr(6)) * 1024;
    }
  }
  return 0;
}

Json load(char** argv) {
  const double before = peak_memory();
  const double first = seconds_of(1, 1, [&] {
    (void)transformers::AutoTokenizer::from_pretrained(argv[2]);
  });
  const double peak = peak_memory() - before;
  return Json::object({{"processor", first}, {"memory", peak}});
}

}  // namespace

int main(int argc, char** argv) {
  accelerate::benchmarks::check_arguments(
      argc,
      argv,
      {.text =
           "tokenizer load <tokenizer.json>\n"
           "       tokenizer encode <tokenizer.json> <texts> [--threads 1]\n"
           "           [--repeats 5] [--offsets] [--ids <file>]\n\n"
           "Measures how fast a tokenizer loads and encodes.",
       .takes_positional = true});
  try {
    const std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "load" && argc > 2) {
      std::cout << load(argv).dump() << "\n";
    } else if (mode == "encode" && argc > 3) {
      std::cout << encode(argc, argv).dump() << "\n";
    } else {
      std::cerr << "usage: tokenizer load <tokenizer.json> | "
                   "encode <tokenizer.json> <texts>\n";
      return 2;
    }
    return 0;
  } catch (const accelerate::Error& error) {
    std::cerr << "error: " << error.what() << "\nhint: " << error.hint()
              << "\n";
    return error.exit_code();
  }
}

// SPDX-License-Identifier: Apache-2.0
// Saves and loads a 400 MB model with the state of AdamW (amsgrad), 1.6 GB in
// total.
//
//     build/bin/benchmarks/checkpoint [--json] [--quick] [folder=DIR]
//                                       [rounds=N]
//     build/bin/benchmarks/checkpoint {save | load} folder=DIR
//
// The first form compares with what the machine can do: `dd` with fsync into
// the same folder, and one memcpy of the state. The second form runs one
// operation for compare_checkpoint.py, which also runs Hugging Face Accelerate.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/json.h"
#include "accelerate/optim.h"
#include "base/str_cat.h"
#include "support/arguments.h"
#include "support/report.h"

namespace accelerate::benchmarks {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 20;
constexpr std::int64_t kWidth = 2000;

struct Options {
  bool json = false;
  bool quick = false;
  fs::path folder;

  int rounds = 3;

  int layers() const { return quick ? 2 : 25; }
};

/// The run that is saved.
class Run {
 public:
  explicit Run(int layers, const fs::path& project = {})
      : accelerator(
            PartialState(Group()),
            {.project_config =
                 ProjectConfiguration{
                     .project_dir = project,
                     .automatic_checkpoint_naming = !project.empty()}}),
        model(make_model(layers)),
        optimizer(
            model->parameters(), AdamWOptions{.lr = 1e-4, .amsgrad = true}) {
    accelerator.prepare(model, optimizer);
  }

  void step() {
    accelerator.backward(model->forward(rows_).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }

  double bytes() const {
    double sum = 0;
    for (const at::Tensor& parameter : model->parameters()) {
      sum += 4.0 * static_cast<double>(parameter.nbytes());
    }
    return sum;
  }

  Accelerator accelerator;
  torch::nn::Sequential model;
  AdamW optimizer;

 private:
  static torch::nn::Sequential make_model(int layers) {
    torch::nn::Sequential model;
    for (int i = 0; i < layers; ++i) {
      model->push_back(torch::nn::Linear(kWidth, kWidth));
    }
    return model;
  }

  at::Tensor rows_ = at::ones({8, kWidth});
};

double seconds(const std::function<void()>& body) {
  return seconds_of(1, body);
}

// A value from /proc/self/status, in bytes.
double memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kilobytes = 0;
    if (word == name + ":" && status >> kilobytes) {
      return kilobytes * 1024;
    }
  }
  return 0;
}

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

void run_command(const std::string& command) {
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error(command + " failed");
  }
}

double run_dd(const fs::path& folder, double bytes) {
  const fs::path file = folder / "dd";
  const std::string command = str_cat(
      "dd if=/dev/zero of='",
      file.string(),
      "' bs=1M conv=fsync status=none count=",
      static_cast<std::int64_t>(bytes / (1 << 20)));
  const double time = seconds([&] { run_command(command); });
  fs::remove(file);
  return time;
}

// Writes all dirty pages to the disk, so that all measurements start in the
// same state.
void sync_disks() {
  ::sync();
}

/// Reports the peak additional memory during `body`, relative to the size of
/// the saved state.
void report_memory(
    const Run& run,
    const Options& options,
    const std::string& name,
    const std::function<void()>& body) {
  const double before = memory("VmRSS");
  reset_peak();
  body();
  Report(options.json)
      .measure(
          "peak extra memory during " + name + ", relative to the state",
          100 * (memory("VmHWM") - before) / run.bytes(),
          "%");
}

// Drops the files from the page cache, so that they are read from the disk.
void drop_from_page_cache(const fs::path& folder) {
  sync_disks();
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

double read_with_dd(const fs::path& folder) {
  return seconds([&] {
    for (const auto& entry : fs::directory_iterator(folder)) {
      run_command(str_cat(
          "dd if='",
          entry.path().string(),
          "' of=/dev/null bs=1M status=none"));
    }
  });
}

void compare_loading(Run& run, const Options& options, double dd_write) {
  const Report report(options.json);
  const fs::path folder = options.folder / "blocking";
  const auto load = [&] { run.accelerator.load_state(folder); };
  for (const bool cold : {false, true}) {
    std::vector<double> our_times;
    std::vector<double> dd_times;
    const auto prepare = [&] {
      cold ? drop_from_page_cache(folder) : sync_disks();
    };
    for (int round = 0; round < options.rounds; ++round) {
      prepare();
      our_times.push_back(seconds(load));
      prepare();
      dd_times.push_back(read_with_dd(folder));
    }
    const std::string name =
        cold ? "load from the disk" : "load from the page cache";
    report.add(
        {name + " vs. reading with dd", median(our_times), median(dd_times)});
    report.add({name + " vs. dd with fsync", median(our_times), dd_write});
  }
  report_memory(run, options, "a load", load);
}

void compare_saving(Run& run, const Options& options) {
  const Report report(options.json);
  std::vector<double> our_times;
  std::vector<double> dd_times;
  const auto save = [&] {
    sync_disks();
    our_times.push_back(seconds(
        [&] { run.accelerator.save_state(options.folder / "blocking"); }));
  };
  const auto plain = [&] {
    sync_disks();
    dd_times.push_back(run_dd(options.folder, run.bytes()));
  };
  for (int round = 0; round < options.rounds; ++round) {
    round % 2 == 0 ? (save(), plain()) : (plain(), save());
  }
  report.add({"save vs. dd with fsync", median(our_times), median(dd_times)});
  compare_loading(run, options, median(dd_times));
}

double time_memcpy(const Run& run) {
  static std::vector<char> target(static_cast<std::size_t>(run.bytes() / 4), 1);
  std::vector<at::Tensor> parameters = run.model->parameters();
  return seconds([&] {
    for (int part = 0; part < 4; ++part) {
      char* to = target.data();
      for (const at::Tensor& parameter : parameters) {
        std::memcpy(to, parameter.const_data_ptr(), parameter.nbytes());
        to += parameter.nbytes();
      }
    }
  });
}

double time_steps(Run& run) {
  return seconds([&] {
    for (int step = 0; step < kSteps; ++step) {
      run.step();
    }
  });
}

void save_in_background(Run& run, const Options& options) {
  run.accelerator.save_state(
      options.folder / "background", {.blocking = false});
}

// Copies into untouched memory, like the first background save of a state.
double time_memcpy_into_fresh_memory(const Run& run) {
  const auto bytes = static_cast<std::size_t>(run.bytes());
  const std::unique_ptr<char[]> target(new char[bytes]);
  const std::vector<at::Tensor> parameters = run.model->parameters();
  return seconds([&] {
    char* to = target.get();
    for (int part = 0; part < 4; ++part) {
      for (const at::Tensor& parameter : parameters) {
        std::memcpy(to, parameter.const_data_ptr(), parameter.nbytes());
        to += parameter.nbytes();
      }
    }
  });
}

// Without a project folder, no memory is reserved before the first background
// save.
void compare_first_pause(const Options& options) {
  Run run(options.layers());
  run.step();
  const double fresh = time_memcpy_into_fresh_memory(run);
  const double copy = time_memcpy(run);
  double first = 0;
  report_memory(run, options, "a background save", [&] {
    first = seconds([&] { save_in_background(run, options); });
    run.accelerator.wait_for_checkpoint();
  });
  const Report report(options.json);
  report.add({"pause of the first background save, no project", first, copy});
  report.add({"the same vs. a memcpy into fresh memory", first, fresh});
}

// With a project folder, the memory is reserved during the steps before the
// save.
void compare_first_pause_of_project(const Options& options) {
  Run run(options.layers(), options.folder / "project");
  run.step();
  double first = 0;
  report_memory(run, options, "a background save in a project", [&] {
    for (int step = 0; step < kSteps; ++step) {
      run.step();
    }
    first = seconds([&] { run.accelerator.save_state({.blocking = false}); });
    run.accelerator.wait_for_checkpoint();
  });
  Report(options.json)
      .add(
          {"pause of the first background save, project",
           first,
           time_memcpy(run)});
  fs::remove_all(options.folder / "project");
}

void compare_pause(Run& run, const Options& options) {
  const Report report(options.json);
  report_memory(run, options, "a save", [&] {
    run.accelerator.save_state(options.folder / "blocking");
  });
  save_in_background(run, options);
  run.accelerator.wait_for_checkpoint();
  std::vector<double> blocked;
  std::vector<double> copies;
  for (int round = 0; round < options.rounds; ++round) {
    copies.push_back(time_memcpy(run));
    blocked.push_back(seconds([&] { save_in_background(run, options); }));
    run.accelerator.wait_for_checkpoint();
    copies.push_back(time_memcpy(run));
  }
  report.add(
      {"pause of a background save vs. a memcpy",
       median(blocked),
       median(copies)});
}

void compare_steps(Run& run, const Options& options) {
  const Report report(options.json);
  std::vector<double> alone;
  std::vector<double> while_saving;
  const auto with = [&] {
    sync_disks();
    save_in_background(run, options);
    while_saving.push_back(time_steps(run));
    run.accelerator.wait_for_checkpoint();
  };
  const auto without = [&] {
    sync_disks();
    alone.push_back(time_steps(run));
  };
  for (int round = 0; round < options.rounds; ++round) {
    round % 2 == 0 ? (with(), without()) : (without(), with());
  }
  report.add(
      {"20 steps during a background save vs. 20 steps",
       median(while_saving),
       median(alone)});
}

// The CPU seconds that this process has used, on all cores.
double processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto value = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           1e-6 * static_cast<double>(time.tv_usec);
  };
  return value(usage.ru_utime) + value(usage.ru_stime);
}

void print_one(
    Run& run, const std::string& name, const std::function<void()>& body) {
  const double before = processor_time();
  const double time = seconds(body);
  const double used = processor_time() - before;
  // Includes work that is deferred to the first step.
  const double step = seconds([&] { run.step(); });
  std::cout << Json::object({{name, time},
                             {"processor", used},
                             {"and_step", time + step},
                             {"processor_and_step", processor_time() - before},
                             {"bytes", run.bytes()},
                             {"peak_memory", memory("VmHWM")},
                             {"memory_after", memory("RssAnon")}})
                   .dump()
            << "\n";
}

int run_one(const std::string& operation, const Options& options) {
  Run run(options.layers());
  const fs::path folder = options.folder / "ours";
  if (operation == "save") {
    run.step();
    sync_disks();
    print_one(run, operation, [&] { run.accelerator.save_state(folder); });
  } else {
    print_one(run, operation, [&] { run.accelerator.load_state(folder); });
  }
  return 0;
}

int run_all(const Options& options) {
  compare_first_pause(options);
  compare_first_pause_of_project(options);
  Run run(options.layers());
  run.step();
  compare_saving(run, options);
  compare_pause(run, options);
  compare_steps(run, options);
  return 0;
}

}  // namespace
}  // namespace accelerate::benchmarks

int main(int argc, char** argv) {
  using namespace accelerate::benchmarks;
  check_arguments(
      argc,
      argv,
      {.text = "checkpoint [--json] [--quick] [folder=DIR] [rounds=N]\n"
               "       checkpoint {save | load} [--quick] folder=DIR\n\n"
               "Saves and loads a 400 MB model with AdamW's state, 1.6 GB "
               "in total, compared with dd and memcpy."});
  Options options;
  options.json = has_flag(argc, argv, "--json");
  options.quick = has_flag(argc, argv, "--quick");
  options.folder = value_of(argc, argv, "folder");
  if (const auto rounds = value_of(argc, argv, "rounds"); !rounds.empty()) {
    options.rounds = std::stoi(rounds);
  }
  for (const char* operation : {"save", "load"}) {
    if (has_flag(argc, argv, operation)) {
      if (options.folder.empty()) {
        std::cerr << "error: `" << operation << "` needs folder=DIR\n";
        return 2;
      }
      return run_one(operation, options);
    }
  }
  const bool is_temporary = options.folder.empty();
  if (is_temporary) {
    options.folder = std::filesystem::temp_directory_path() /
                     ("checkpoint_benchmark_" + std::to_string(::getpid()));
  }
  std::filesystem::create_directories(options.folder);
  const int code = run_all(options);
  if (is_temporary) {
    std::filesystem::remove_all(options.folder);
  }
  return code;
}

// SPDX-License-Identifier: Apache-2.0
// Saving and loading a model of 400 MB with the state of AdamW (amsgrad), 1.6
// GB in all.
//
//     build/bin/benchmarks/checkpoint [--json] [--quick] [folder=DIR]
//                                       [rounds=N]
//     build/bin/benchmarks/checkpoint {save | load} folder=DIR
//
// The first form compares with what the machine can do: `dd` with fsync into
// the same folder, and one memcpy of the state. The second does one thing for
// compare_checkpoint.py, which runs the peer beside it.
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

struct Settings {
  bool json = false;
  bool quick = false;
  fs::path folder;

  int rounds = 3;

  int layers() const { return quick ? 2 : 25; }
};

/// What is saved.
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

// A line of /proc/self/status, in bytes.
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

void forget_peak() {
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

// Everything that is dirty goes to the disk first, so that each begins alike.
void settle() {
  ::sync();
}

/// Of the state, how much more memory than before `body` needed at most.
void tell_memory(
    const Run& run,
    const Settings& settings,
    const std::string& name,
    const std::function<void()>& body) {
  const double before = memory("VmRSS");
  forget_peak();
  body();
  Report(settings.json)
      .measure(
          "peak extra memory of " + name + ", of the state",
          100 * (memory("VmHWM") - before) / run.bytes(),
          "%");
}

// The system's copies of the files go, so that the disk has to give them.
void forget_files(const fs::path& folder) {
  settle();
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

void compare_loading(Run& run, const Settings& settings, double dd_write) {
  const Report report(settings.json);
  const fs::path folder = settings.folder / "blocking";
  const auto load = [&] { run.accelerator.load_state(folder); };
  for (const bool cold : {false, true}) {
    std::vector<double> ours;
    std::vector<double> theirs;
    const auto prepare = [&] { cold ? forget_files(folder) : settle(); };
    for (int round = 0; round < settings.rounds; ++round) {
      prepare();
      ours.push_back(seconds(load));
      prepare();
      theirs.push_back(read_with_dd(folder));
    }
    const std::string name =
        cold ? "load from the disk" : "load from the system's cache";
    report.add({name + ", against dd reading", median(ours), median(theirs)});
    report.add({name + ", against dd with fsync", median(ours), dd_write});
  }
  tell_memory(run, settings, "a load", load);
}

void compare_saving(Run& run, const Settings& settings) {
  const Report report(settings.json);
  std::vector<double> ours;
  std::vector<double> theirs;
  const auto save = [&] {
    settle();
    ours.push_back(seconds(
        [&] { run.accelerator.save_state(settings.folder / "blocking"); }));
  };
  const auto plain = [&] {
    settle();
    theirs.push_back(run_dd(settings.folder, run.bytes()));
  };
  for (int round = 0; round < settings.rounds; ++round) {
    round % 2 == 0 ? (save(), plain()) : (plain(), save());
  }
  report.add({"save, against dd with fsync", median(ours), median(theirs)});
  compare_loading(run, settings, median(theirs));
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

void save_in_background(Run& run, const Settings& settings) {
  run.accelerator.save_state(
      settings.folder / "background", {.blocking = false});
}

// Into memory that nobody has touched, as the first copy of a state is.
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

// Outside of a project nobody knows that there will be one.
void compare_first_stop(const Settings& settings) {
  Run run(settings.layers());
  run.step();
  const double fresh = time_memcpy_into_fresh_memory(run);
  const double copy = time_memcpy(run);
  double first = 0;
  tell_memory(run, settings, "a background save", [&] {
    first = seconds([&] { save_in_background(run, settings); });
    run.accelerator.wait_for_checkpoint();
  });
  const Report report(settings.json);
  report.add({"stopped by the first one, without a project", first, copy});
  report.add({"the same, against a memcpy into fresh memory", first, fresh});
}

// The memory for it was got beside the steps before.
void compare_first_stop_of_project(const Settings& settings) {
  Run run(settings.layers(), settings.folder / "project");
  run.step();
  double first = 0;
  tell_memory(run, settings, "a background save of a project", [&] {
    for (int step = 0; step < kSteps; ++step) {
      run.step();
    }
    first = seconds([&] { run.accelerator.save_state({.blocking = false}); });
    run.accelerator.wait_for_checkpoint();
  });
  Report(settings.json)
      .add({"stopped by the first one of a project", first, time_memcpy(run)});
  fs::remove_all(settings.folder / "project");
}

void compare_stop(Run& run, const Settings& settings) {
  const Report report(settings.json);
  tell_memory(run, settings, "a save", [&] {
    run.accelerator.save_state(settings.folder / "blocking");
  });
  save_in_background(run, settings);
  run.accelerator.wait_for_checkpoint();
  std::vector<double> stopped;
  std::vector<double> copies;
  for (int round = 0; round < settings.rounds; ++round) {
    copies.push_back(time_memcpy(run));
    stopped.push_back(seconds([&] { save_in_background(run, settings); }));
    run.accelerator.wait_for_checkpoint();
    copies.push_back(time_memcpy(run));
  }
  report.add(
      {"stopped by a background save, against a memcpy",
       median(stopped),
       median(copies)});
}

void compare_steps(Run& run, const Settings& settings) {
  const Report report(settings.json);
  std::vector<double> alone;
  std::vector<double> beside;
  const auto with = [&] {
    settle();
    save_in_background(run, settings);
    beside.push_back(time_steps(run));
    run.accelerator.wait_for_checkpoint();
  };
  const auto without = [&] {
    settle();
    alone.push_back(time_steps(run));
  };
  for (int round = 0; round < settings.rounds; ++round) {
    round % 2 == 0 ? (with(), without()) : (without(), with());
  }
  report.add(
      {"20 steps while it writes, against 20 steps",
       median(beside),
       median(alone)});
}

// Seconds of all processors that this process has used.
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
  // What comes with the first step belongs to it too.
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

int run_one(const std::string& what, const Settings& settings) {
  Run run(settings.layers());
  const fs::path folder = settings.folder / "ours";
  if (what == "save") {
    run.step();
    settle();
    print_one(run, what, [&] { run.accelerator.save_state(folder); });
  } else {
    print_one(run, what, [&] { run.accelerator.load_state(folder); });
  }
  return 0;
}

int run_all(const Settings& settings) {
  compare_first_stop(settings);
  compare_first_stop_of_project(settings);
  Run run(settings.layers());
  run.step();
  compare_saving(run, settings);
  compare_stop(run, settings);
  compare_steps(run, settings);
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
               "Saving and loading a model of 400 MB with AdamW's state, 1.6 "
               "GB in all, against dd and memcpy."});
  Settings settings;
  settings.json = has_flag(argc, argv, "--json");
  settings.quick = has_flag(argc, argv, "--quick");
  settings.folder = value_of(argc, argv, "folder");
  if (const auto rounds = value_of(argc, argv, "rounds"); !rounds.empty()) {
    settings.rounds = std::stoi(rounds);
  }
  for (const char* what : {"save", "load"}) {
    if (has_flag(argc, argv, what)) {
      if (settings.folder.empty()) {
        std::cerr << "error: `" << what << "` needs folder=DIR\n";
        return 2;
      }
      return run_one(what, settings);
    }
  }
  const bool own = settings.folder.empty();
  if (own) {
    settings.folder = std::filesystem::temp_directory_path() /
                      ("checkpoint_benchmark_" + std::to_string(::getpid()));
  }
  std::filesystem::create_directories(settings.folder);
  const int code = run_all(settings);
  if (own) {
    std::filesystem::remove_all(settings.folder);
  }
  return code;
}

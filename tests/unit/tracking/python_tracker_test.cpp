// SPDX-License-Identifier: Apache-2.0
// Trackers in child processes, with the real package accelerate_cpp and tracker
// classes that the tests write.
#include "tracking/python_tracker.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "tracking/registry.h"
#include "tracking/tracker_set.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Python starts in less than a second, but tests run in parallel.
constexpr milliseconds kLong{50'000};
constexpr milliseconds kShort{300};

// Writes each call to the file `calls`; misbehaves when it is told to.
constexpr const char* kModule = R"(
import os, signal, subprocess, sys, threading, time
from accelerate_cpp import GeneralTracker

class Recorder(GeneralTracker):
    name = "recorder"
    requires_logging_directory = True

    def __init__(self, project, logging_dir, **options):
        super().__init__()
        self.file = open(os.path.join(logging_dir, "calls"), "a")
        self.write(project, options)

    tracker = None

    def write(self, *values):
        print(*values, file=self.file, flush=True)

    def start(self):
        self.write("pid", os.getpid())
        print("to stdout")

    def store_init_configuration(self, values):
        self.write("config", values)

    def log(self, values, step=None, **kwargs):
        self.write(step, values, kwargs)
        if "raise" in values:
            raise ValueError("no " + os.environ.get("RECORDER_API_KEY", ""))
        if "kill" in values:
            os.kill(os.getpid(), signal.SIGKILL)
        if "exit" in values:
            os._exit(7)
        if "sleep" in values:
            sys.modules["__main__"].ORPHAN_SECONDS = 0.5
            time.sleep(1000)
        if "garbage" in values:
            os.write(3, b"garbage\n")
        if "flood" in values:
            while True:
                os.write(3, bytes(65536))
        if "child" in values:
            child = subprocess.Popen(["sleep", "1000"])
            self.write("child", child.pid)

    def log_images(self, values, step=None):
        self.write(step, {key: [png.hex() for png in files] for key, files in values.items()})

    def log_table(self, table_name, columns, data, step=None):
        self.write(step, table_name, columns, data)

    def finish(self):
        self.write("finished", sorted(set(os.environ) & {"RANK", "ACCELERATE_STORE_SECRET"}))

class FailsToStart(Recorder):
    def start(self):
        raise OSError("no server")

class NeverStarts(Recorder):
    def start(self):
        time.sleep(1000)

class NotATracker:
    pass
)";

void set_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

/// A folder with the module `recorder`. Each test runs in a process of its own,
/// so it may change the environment.
class PythonTrackers : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("packages/recorder.py", kModule);
    fs::create_directory(folder_.path() / "logs");
    set_variable(
        "PYTHONPATH",
        str_cat(
            folder_.path().string(), "/packages:", ACCELERATE_PYTHON_PACKAGE));
    set_variable("PYTHONDONTWRITEBYTECODE", "1");
    set_variable("PATH", "/usr/bin:/bin");
  }

  TrackerSetup setup() const {
    return {
        .project = "team/project",
        .run = "run",
        .logging_dir = folder_.path() / "logs",
        .kwargs = {}};
  }
  std::unique_ptr<PythonTracker> started(
      PythonTrackerLimits limits = {kLong, kLong, kLong}) const {
    auto tracker = std::make_unique<PythonTracker>("recorder:Recorder", limits);
    tracker->start(setup());
    return tracker;
  }
  std::vector<std::string> calls() const {
    auto lines = split(folder_.read("logs/calls"), '\n');
    lines.pop_back();
    return lines;
  }
  pid_t number_after(const std::string& word) const {
    for (const std::string& line : calls()) {
      if (line.starts_with(word + " ")) {
        return static_cast<pid_t>(std::stol(line.substr(word.size() + 1)));
      }
    }
    return -1;
  }

  TemporaryDirectory folder_;
};

TrackedValues logged(std::int64_t step, std::vector<TrackedEntry> entries) {
  TrackedValues values;
  values.step = step;
  values.entries = std::move(entries);
  return values;
}

TrackedValues told_to(const std::string& command) {
  return logged(1, {{command, true}});
}

// Waits until a process has ended. `number` must be a child of a process that
// still exists, or may belong to no process.
bool ends_in_time(pid_t number) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (std::chrono::steady_clock::now() < deadline) {
    if (::kill(number, 0) != 0) {
      return true;
    }
    // A zombie has ended; nobody may reap it in a container.
    std::ifstream status(str_cat("/proc/", number, "/stat"));
    std::string content;
    std::getline(status, content);
    if (content.find(") Z ") != std::string::npos) {
      return true;
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

TEST_F(PythonTrackers, GetEveryCall) {
  set_variable("RANK", "3");
  set_variable("ACCELERATE_STORE_SECRET", "secret");
  PythonTracker tracker("recorder:Recorder");
  TrackerSetup options = setup();
  options.kwargs = Json::object({{"tags", Json::array({"a"})}});
  tracker.start(options);
  tracker.store_init_configuration(Json::object({{"lr", 0.1}}));
  TrackedValues values = logged(
      2,
      {{"loss", 0.5},
       {"bad", std::nan("")},
       {"n", std::int64_t{3}},
       {"ok", true},
       {"note", std::string("ü\n")},
       {"h", Histogram{0, 2, 3, 5, {1, 2}, {1, 4}}}});
  values.kwargs =
      Json::object({{"recorder:Recorder", Json::object({{"context", "c"}})}});
  tracker.log(values);
  TrackedImages images;
  images.step = 3;
  images.entries = {{"x", {{.png = "\x89PNG"}, {.png = "\xFF"}, {.png = ""}}}};
  tracker.log_images(images);
  TrackedTable table;
  table.step = 4;
  table.key = "t";
  table.columns = {"a", "b"};
  table.rows = {{Json(1), Json("x")}};
  tracker.log_table(table);
  tracker.finish();

  const pid_t child = number_after("pid");
  EXPECT_THAT(
      calls(),
      ElementsAre(
          "team/project {'tags': ['a']}",
          str_cat("pid ", child),
          "config {'lr': 0.1}",
          "2 {'loss': 0.5, 'bad': nan, 'n': 3, 'ok': True, 'note': 'ü\\n', "
          "'h': {'min': 0.0, 'max': 2.0, 'limits': [1.0, 2.0], 'counts': [1.0, "
          "4.0]}} {'context': 'c'}",
          "3 {'x': ['89504e47', 'ff', '']}",
          "4 t ['a', 'b'] [[1, 'x']]",
          "finished []"));
  EXPECT_NE(::kill(child, 0), 0);
}

TEST_F(PythonTrackers, PrintToStderr) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  started()->finish();

  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "to stdout\n");
}

TEST_F(PythonTrackers, ReportExceptionsWithoutKeysAndContinue) {
  set_variable("RECORDER_API_KEY", "0123456789");
  const auto tracker = started();

  EXPECT_EQ(
      message_of<IoError>([&] { tracker->log(told_to("raise")); }),
      "ValueError: no <RECORDER_API_KEY>");
  tracker->log(told_to("continue"));
  tracker->finish();

  EXPECT_EQ(calls().back(), "finished []");
}

TEST_F(PythonTrackers, ReportThatTheirProcessWasKilled) {
  const auto tracker = started();
  const std::string expected =
      "`/usr/bin/python3 -m accelerate_cpp.tracker recorder:Recorder` was "
      "killed by signal 9 (KILL)";

  EXPECT_EQ(
      message_of<IoError>([&] { tracker->log(told_to("kill")); }), expected);
  EXPECT_EQ(message_of<IoError>([&] { tracker->log({}); }), expected);
  EXPECT_EQ(message_of<IoError>([&] { tracker->finish(); }), expected);
}

TEST_F(PythonTrackers, ReportTheExitCodeOfTheirProcess) {
  const auto tracker = started();

  EXPECT_THAT(
      message_of<IoError>([&] { tracker->log(told_to("exit")); }),
      HasSubstr("ended with exit code 7"));
}

TEST_F(PythonTrackers, AreStoppedWhenTheyHang) {
  const auto tracker = started({kLong, kShort, kLong});
  const pid_t child = number_after("pid");

  EXPECT_THAT(
      message_of<IoError>([&] { tracker->log(told_to("sleep")); }),
      HasSubstr("did not answer within 0.3 s and was stopped"));
  EXPECT_NE(::kill(child, 0), 0);
}

TEST_F(PythonTrackers, AreStoppedWithTheProcessesThatTheyStarted) {
  auto tracker = started();
  tracker->log(told_to("child"));
  const pid_t child = number_after("child");
  ASSERT_EQ(::kill(child, 0), 0);

  // The other process does not keep the tracker waiting.
  EXPECT_THAT(
      message_of<IoError>([&] { tracker->log(told_to("kill")); }),
      HasSubstr("killed by signal 9"));
  EXPECT_TRUE(ends_in_time(child));
}

TEST_F(PythonTrackers, EndWithTheTracker) {
  auto tracker = started();
  const pid_t child = number_after("pid");

  tracker.reset();

  EXPECT_NE(::kill(child, 0), 0);
}

TEST_F(PythonTrackers, RejectAnswersThatAreNotJson) {
  const auto tracker = started();

  EXPECT_THAT(
      message_of<IoError>([&] { tracker->log(told_to("garbage")); }),
      HasSubstr("sent `garbage`, which is not an answer"));
}

TEST_F(PythonTrackers, RejectAnswersWithoutEnd) {
  const auto tracker = started();

  EXPECT_THAT(
      message_of<IoError>([&] { tracker->log(told_to("flood")); }),
      HasSubstr("sent more than 1 MiB without a line feed"));
}

TEST_F(PythonTrackers, DoNotStopTheRunWhenTheyFail) {
  testing::internal::CaptureStderr();
  TrackerSet trackers;
  trackers.add(make_tracker("recorder:Recorder"), setup());
  trackers.log(told_to("kill"), 0, 8);
  trackers.log(told_to("more"), 1, 8);
  trackers.finish();

  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      printed,
      HasSubstr("tracker `recorder:Recorder` failed to store some values: "
                "`/usr/bin/python3 -m accelerate_cpp.tracker recorder:Recorder`"
                " was killed by signal 9 (KILL); training continues"));
  EXPECT_THAT(printed, HasSubstr("lost up to 2 of 2 calls"));
}

TEST_F(PythonTrackers, RefuseToStartIfTheirStartFails) {
  PythonTracker fails("recorder:FailsToStart");
  PythonTracker never("recorder:NeverStarts", {milliseconds(5'000), {}, {}});
  PythonTracker other("recorder:NotATracker");
  PythonTracker missing("no_such_module:Tracker");

  EXPECT_EQ(
      message_of<IoError>([&] { fails.start(setup()); }), "OSError: no server");
  EXPECT_THAT(
      message_of<IoError>([&] { never.start(setup()); }),
      HasSubstr("did not answer within 5.0 s and was stopped"));
  EXPECT_EQ(
      message_of<ArgumentError>([&] { other.start(setup()); }),
      "`recorder:NotATracker` is not a subclass of "
      "accelerate_cpp.GeneralTracker");
  EXPECT_EQ(
      message_of<ArgumentError>([&] { missing.start(setup()); }),
      "/usr/bin/python3 cannot import the tracker `no_such_module:Tracker`: No "
      "module named 'no_such_module'");
  TrackerSetup no_folder = setup();
  no_folder.logging_dir = "";
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { PythonTracker("recorder:Recorder").start(no_folder); }),
      "tracker `recorder:Recorder` needs a folder for its files");
}

TEST_F(PythonTrackers, NeedThePackageOfTheService) {
  try {
    PythonTracker("comet_ml").start(setup());
    FAIL() << "comet_ml is installed for /usr/bin/python3";
  } catch (const UnsupportedError& error) {
    EXPECT_STREQ(
        error.what(),
        "tracker `comet_ml` needs the Python package `comet_ml`, but "
        "/usr/bin/python3 cannot import it: No module named 'comet_ml'");
    EXPECT_EQ(error.hint(), "run `/usr/bin/python3 -m pip install comet-ml`");
  }
}

TEST_F(PythonTrackers, NeedThePackageOfThisLibrary) {
  set_variable("PYTHONPATH", folder_.path().string());
  PythonTracker tracker("aim");

  const std::string message =
      message_of<UnsupportedError>([&] { tracker.start(setup()); });
  EXPECT_THAT(
      message,
      StartsWith("cannot run this tracker: `/usr/bin/python3 -m "
                 "accelerate_cpp.tracker aim` ended with exit code 1: "));
  EXPECT_THAT(message, HasSubstr("No module named 'accelerate_cpp'"));
}

TEST_F(PythonTrackers, NeedPython) {
  set_variable("PATH", folder_.path().string());
  PythonTracker tracker("aim");

  EXPECT_EQ(
      message_of<UnsupportedError>([&] { tracker.start(setup()); }),
      "tracker `aim` needs Python, but there is no `python3` on PATH");
}

TEST_F(PythonTrackers, NeedAPythonThatRuns) {
  const fs::path python = folder_.write("python3", "not a program");
  fs::permissions(python, fs::perms::owner_all);
  set_variable("PATH", folder_.path().string());
  PythonTracker tracker("aim");

  EXPECT_EQ(
      message_of<UnsupportedError>([&] { tracker.start(setup()); }),
      str_cat("cannot run ", python.string(), ": Exec format error"));
}

TEST_F(PythonTrackers, NeedThePackageOfTheSameVersion) {
  folder_.write("other/accelerate_cpp/__init__.py", "");
  folder_.write(
      "other/accelerate_cpp/tracker.py",
      "import os\nos.write(3, b'{\"protocol\": 2}\\n')\n");
  set_variable("PYTHONPATH", (folder_.path() / "other").string());
  PythonTracker tracker("aim");

  EXPECT_EQ(
      message_of<UnsupportedError>([&] { tracker.start(setup()); }),
      "`/usr/bin/python3 -m accelerate_cpp.tracker aim` belongs to another "
      "version of accelerate_cpp");
}

TEST_F(PythonTrackers, HaveMoreTimeToFinishThanOtherTrackers) {
  testing::internal::CaptureStderr();
  TrackerSet trackers({.finish_timeout = milliseconds(1)});
  trackers.add(make_tracker("recorder:Recorder"), setup());
  trackers.finish();

  EXPECT_EQ(testing::internal::GetCapturedStderr(), "to stdout\n");
  EXPECT_EQ(calls().back(), "finished []");
}

TEST_F(PythonTrackers, AreNotImportedFromTheCurrentFolder) {
  folder_.write("accelerate_cpp/__init__.py", "raise SystemExit('wrong')");
  folder_.write("json.py", "raise SystemExit('wrong')");
  fs::current_path(folder_.path());

  started()->finish();

  EXPECT_EQ(calls().back(), "finished []");
}

TEST_F(PythonTrackers, FinishTheirRunWhenTheProgramIsKilled) {
  const pid_t program = ::fork();
  ASSERT_GE(program, 0);
  if (program == 0) {
    const auto tracker = started();
    tracker->log(told_to("child"));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(program, &status, 0), program);
  ASSERT_TRUE(WIFSIGNALED(status));

  EXPECT_TRUE(ends_in_time(number_after("pid")));
  EXPECT_TRUE(ends_in_time(number_after("child")));
  EXPECT_EQ(calls().back(), "finished []");
}

TEST_F(PythonTrackers, EndWhenTheProgramIsKilledWhileTheyHang) {
  const pid_t program = ::fork();
  ASSERT_GE(program, 0);
  if (program == 0) {
    const auto tracker = started();
    std::thread hang([&] { tracker->log(told_to("sleep")); });
    while (calls().size() < 3) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(program, nullptr, 0), program);

  EXPECT_TRUE(ends_in_time(number_after("pid")));
}

TEST(PythonTrackerNames, AreServicesOrClasses) {
  EXPECT_TRUE(names_python_class("package.module:Class_1"));
  EXPECT_FALSE(names_python_class("module"));
  EXPECT_FALSE(names_python_class(":Class"));
  EXPECT_FALSE(names_python_class("module:"));
  EXPECT_FALSE(names_python_class("a..b:Class"));
  EXPECT_FALSE(names_python_class("http://host"));
  EXPECT_FALSE(names_python_class("a:b:c"));
  EXPECT_EQ(make_tracker("a.b:C")->name(), "a.b:C");
  EXPECT_TRUE(make_tracker("aim")->requires_logging_directory());
  EXPECT_THAT(file_tracker_names(), testing::Not(testing::Contains("aim")));
  EXPECT_THAT(tracker_names(), testing::Contains("comet_ml"));
}

}  // namespace
}  // namespace accelerate

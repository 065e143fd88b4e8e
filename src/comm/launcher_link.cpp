// SPDX-License-Identifier: Apache-2.0
#include "comm/launcher_link.h"

#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <unistd.h>

#include <cxxabi.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/progress_file.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// A separate connection for status texts, which must not wait for a pending
// `get` of this rank.
struct Link {
  std::mutex mutex;
  std::optional<StoreClientOptions> options;
  std::unique_ptr<StoreClient> client;
};

Link& link() {
  static Link instance;
  return instance;
}

template <typename Request>
void call_launcher(Request request) noexcept {
  try {
    Link& shared = link();
    const std::scoped_lock lock(shared.mutex);
    if (!shared.options) {
      return;
    }
    if (shared.client == nullptr) {
      shared.client = std::make_unique<StoreClient>(*shared.options);
    }
    request(*shared.client);
  } catch (const std::exception&) {
    // The launcher has exited or is stopping this job; other calls report this.
  }
}

// Never destroyed, because threads may still be training while static objects
// are destroyed.
struct Worker {
  std::unique_ptr<ProgressWriter> progress;
  std::string error_file;
  /// Whether the launcher prints the error file.
  bool is_reported = false;
  std::terminate_handler next = nullptr;
};

Worker& worker() {
  static auto* instance = new Worker;
  return *instance;
}

std::string readable_type(const std::exception& error) {
  const char* mangled = typeid(error).name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return name ? name.get() : mangled;
}

std::string describe(const std::exception& error) {
  std::string text = error.what();
  // LibTorch appends a stack trace to every message.
  text.erase(std::min(text.find("\nException raised from "), text.size()));
  text = str_cat(readable_type(error), ": ", text);
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    text += ours->hint().empty() ? "" : str_cat("\nhint: ", ours->hint());
  }
  return text;
}

std::string describe_current_exception() {
  try {
    if (const auto current = std::current_exception()) {
      std::rethrow_exception(current);
    }
    return "std::terminate was called without an exception";
  } catch (const std::exception& error) {
    return describe(error);
  } catch (...) {
    return "an exception that does not derive from std::exception";
  }
}

// Writes the error in the format of torchrun's decorator `record`, so that any
// launcher can read the file.
void write_error_file(const std::string& path, const std::string& text) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const double seconds =
      static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  const Json extra = Json::object({{"timestamp", seconds}});
  const Json message = Json::object({{"message", text}, {"extraInfo", extra}});
  write_file(path, Json::object({{"message", message}}).dump());
}

// Prints a configuration error as the command line does and exits without a
// core file, because such an error is not a bug. For other errors, prints only
// the hint; the next handler prints the message.
void print_uncaught_error() {
  try {
    if (const auto current = std::current_exception()) {
      std::rethrow_exception(current);
    }
  } catch (const Error& error) {
    const bool is_config = dynamic_cast<const ConfigError*>(&error) != nullptr;
    std::string text =
        is_config ? str_cat("error: ", error.what(), "\n\n") : std::string();
    text += error.hint().empty() ? "" : str_cat("hint: ", error.hint(), "\n");
    (void)!::write(STDERR_FILENO, text.data(), text.size());
    if (is_config) {
      ::_exit(error.exit_code());
    }
  } catch (...) {
    // The next handler prints the exception.
  }
}

// `accelerate launch` prints the error file at the end of its output, where the
// user looks first. Printing the error here would only repeat it.
[[noreturn]] void end_in_silence() {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const ConfigError& error) {
    ::_exit(error.exit_code());
  } catch (...) {
    std::abort();
  }
}

[[noreturn]] void report_and_terminate() {
  try {
    if (!worker().error_file.empty()) {
      write_error_file(worker().error_file, describe_current_exception());
    }
    // A handler that the user has installed takes precedence.
    if (worker().next == __gnu_cxx::__verbose_terminate_handler) {
      if (worker().is_reported && std::current_exception()) {
        end_in_silence();
      }
      print_uncaught_error();
    }
  } catch (...) {
    // The next handler also prints the exception.
  }
  if (worker().next != nullptr) {
    worker().next();
  }
  std::abort();
}

}  // namespace

void attach_to_launcher(const Environment& environment) noexcept {
  try {
    static std::mutex mutex;
    const std::scoped_lock lock(mutex);
    if (const auto path = environment.get("ACCELERATE_PROGRESS_FILE");
        path && worker().progress == nullptr) {
      worker().progress = std::make_unique<ProgressWriter>(*path);
    }
    if (const auto path = environment.get("TORCHELASTIC_ERROR_FILE");
        path && worker().error_file.empty()) {
      worker().error_file = *path;
      // torchrun sets only the variable of the error file.
      worker().is_reported =
          environment.get("ACCELERATE_PROGRESS_FILE").has_value();
    }
    if (worker().next == nullptr) {
      worker().next = std::set_terminate(report_and_terminate);
    }
  } catch (const std::exception&) {
    // Training does not depend on the launcher.
  }
}

void report_step_to_launcher(std::int64_t step) noexcept {
  if (ProgressWriter* progress = worker().progress.get()) {
    progress->write(step);
  }
}

void set_launcher_link(const StoreClientOptions& options) {
  const std::scoped_lock lock(link().mutex);
  link().options = options;
  link().client.reset();
}

void report_status_to_launcher(const std::string& text) noexcept {
  call_launcher([&](StoreClient& client) { client.set_status(text); });
}

}  // namespace accelerate

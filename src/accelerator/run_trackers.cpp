// SPDX-License-Identifier: Apache-2.0
#include "accelerator/run_trackers.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/accelerator_options.h"
#include "accelerate/error.h"
#include "accelerator/logged_images.h"
#include "accelerator/pending_numbers.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/registry.h"

namespace accelerate {
namespace {

/// Stands for a tracker that only another process has.
class BlankTracker : public GeneralTracker {
 public:
  explicit BlankTracker(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void log(const TrackedValues& /*values*/) override {}
  void log_images(const TrackedImages& /*images*/) override {}
  void log_table(const TrackedTable& /*table*/) override {}

 private:
  std::string name_;
};

/// Nested values become a list of keys and values.
class Flattened {
 public:
  explicit Flattened(const LogValues& values) {
    entries.reserve(values.size());
    for (const LogEntry& entry : values) {
      add(entry.key, entry.value);
    }
  }

  std::vector<TrackedEntry> entries;
  std::size_t bytes = 0;
  /// Tensors on devices, and the positions of their entries.
  std::vector<at::Tensor> tensors;
  std::vector<std::size_t> positions;

 private:
  void add(const std::string& key, const LogValue& value) {
    std::visit(
        [&](const auto& content) { add_content(key, content); }, value.value());
  }
  template <typename Content>
  void add_content(const std::string& key, const Content& content) {
    bytes += sizeof(TrackedEntry) + key.size();
    if constexpr (std::is_same_v<Content, std::shared_ptr<const LogValues>>) {
      for (const LogEntry& entry : *content) {
        add(str_cat(key, "/", entry.key), entry.value);
      }
    } else if constexpr (std::is_same_v<
                             Content,
                             std::shared_ptr<const at::Tensor>>) {
      add_tensor(key, *content);
    } else if constexpr (std::is_same_v<
                             Content,
                             std::shared_ptr<const Histogram>>) {
      bytes += 2 * sizeof(double) * content->counts.size();
      entries.push_back({key, *content});
    } else {
      if constexpr (std::is_same_v<Content, std::string>) {
        bytes += content.size();
      }
      entries.push_back({key, content});
    }
  }
  void add_tensor(const std::string& key, const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.numel() != 1 || tensor.is_complex() ||
        tensor.is_meta()) {
      throw ArgumentError(
          str_cat(
              "`log` got ",
              tensor.defined() ? str_cat(
                                     "a tensor of type ",
                                     tensor.scalar_type(),
                                     " and shape ",
                                     tensor.sizes())
                               : "an undefined tensor",
              " as `",
              key,
              "`"),
          tensor.defined() ? "log one number, such as the tensor's mean, or "
                             "log `histogram_of(tensor)`"
                           : "assign a value to the tensor before you log it");
    }
    if (tensor.device().is_cpu()) {
      entries.push_back({key, number_in(tensor)});
      return;
    }
    tensors.push_back(tensor);
    positions.push_back(entries.size());
    entries.push_back({key, 0.0});
  }
};

const at::Tensor& image_tensor(const LogEntry& entry) {
  const auto* const tensor =
      std::get_if<std::shared_ptr<const at::Tensor>>(&entry.value.value());
  if (tensor == nullptr || !(*tensor)->defined()) {
    throw ArgumentError(
        str_cat(
            "the value of `",
            entry.key,
            "` passed to `log_images` is ",
            tensor == nullptr ? "not a tensor" : "an undefined tensor"),
        "pass a tensor with one or more images");
  }
  return **tensor;
}

std::size_t table_bytes(const TrackedTable& table) {
  std::size_t bytes = 0;
  for (const auto& row : table.rows) {
    for (const Json& value : row) {
      bytes +=
          sizeof(Json) + (value.is_string() ? value.as_string().size() : 0);
    }
  }
  return bytes;
}

std::shared_ptr<GeneralTracker> tracker_of(const LogWith& choice) {
  return choice.tracker() ? choice.tracker() : make_tracker(choice.name());
}

// Each tracker once; `all` becomes the names that it stands for.
std::vector<LogWith> chosen_trackers(const std::vector<LogWith>& log_with) {
  std::vector<LogWith> chosen;
  const auto add = [&](const LogWith& choice) {
    const bool known = std::ranges::any_of(chosen, [&](const LogWith& other) {
      return other.name() == choice.name() &&
             other.tracker() == choice.tracker();
    });
    if (!known) {
      chosen.push_back(choice);
    }
  };
  for (const LogWith& choice : log_with) {
    if (choice.name() == "all") {
      for (const std::string& name : file_tracker_names()) {
        add(name);
      }
    } else {
      add(choice);
    }
  }
  return chosen;
}

}  // namespace

RunTrackers::RunTrackers(
    const PartialState& state,
    const AcceleratorOptions& options,
    std::filesystem::path logging_dir)
    : state_(state),
      logging_dir_(std::move(logging_dir)),
      log_with_(chosen_trackers(options.log_with)) {
  for (const LogWith& choice : log_with_) {
    const auto tracker = tracker_of(choice);
    if (!tracker) {
      throw ArgumentError("`log_with` contains a null pointer");
    }
    const std::string name = tracker->name();
    if (tracker->requires_logging_directory() && logging_dir_.empty()) {
      throw ArgumentError(
          str_cat("tracker `", name, "` needs a folder for its files"),
          "set `project_dir`, or `logging_dir` in `project_config`");
    }
    if (std::ranges::find(names_, name) != names_.end()) {
      throw ArgumentError(
          str_cat("`log_with` has two trackers named `", name, "`"));
    }
    names_.push_back(name);
  }
}

void RunTrackers::init(
    const std::string& project, const Json& config, const Json& init_kwargs) {
  finish();
  trackers_.emplace();
  if (loaded_) {
    trackers_->load_state_dict(*loaded_);
  }
  for (const LogWith& choice : log_with_) {
    const auto tracker = tracker_of(choice);
    if (tracker->main_process_only() && !state_.is_main_process()) {
      continue;
    }
    const Json* const kwargs = init_kwargs.find(tracker->name());
    trackers_->add(
        tracker,
        {.project = project,
         .run = {},
         .logging_dir = logging_dir_,
         .kwargs = kwargs != nullptr ? *kwargs : Json()});
  }
  if (!config.is_null()) {
    trackers_->store_init_configuration(config);
  }
}

bool RunTrackers::check_started(const char* caller) const {
  if (!log_with_.empty() && !trackers_) {
    throw StateError(
        str_cat("`", caller, "` was called while no trackers were running"),
        "call `init_trackers` first, and `end_training` last");
  }
  return trackers_ && !trackers_->empty();
}

void RunTrackers::log(
    const LogValues& values, const LogValuesOptions& options) {
  if (!check_started("log")) {
    return;
  }
  Flattened flattened(values);
  std::function<void(TrackedValues&)> complete;
  if (!flattened.tensors.empty()) {
    complete = [positions = std::move(flattened.positions),
                read =
                    begin_reading(flattened.tensors)](TrackedValues& logged) {
      std::vector<TrackedValue> numbers = read();
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        logged.entries[positions[i]].value = std::move(numbers[i]);
      }
    };
  }
  TrackedValues tracked;
  tracked.entries = std::move(flattened.entries);
  tracked.kwargs = options.log_kwargs;
  trackers_->log(
      std::move(tracked), options.step, flattened.bytes, std::move(complete));
}

void RunTrackers::log_images(
    const LogValues& values, const LogImagesOptions& options) {
  if (!check_started("log_images")) {
    return;
  }
  for (const LogEntry& entry : values) {
    check_images(entry.key, image_tensor(entry), options.dataformats);
  }
  TrackedImages images;
  std::size_t bytes = 0;
  std::vector<std::function<at::Tensor()>> copies;
  for (const LogEntry& entry : values) {
    const at::Tensor& tensor = image_tensor(entry);
    images.entries.push_back({entry.key, {}});
    copies.push_back(begin_copying(tensor));
    bytes += tensor.nbytes();
  }
  trackers_->log_images(
      std::move(images),
      options.step,
      bytes,
      [copies = std::move(copies),
       dataformats = options.dataformats](TrackedImages& logged) {
        for (std::size_t i = 0; i < copies.size(); ++i) {
          logged.entries[i].images = encode_images(copies[i](), dataformats);
        }
      });
}

void RunTrackers::log_table(
    TrackedTable table, const LogValuesOptions& options) {
  if (!check_started("log_table")) {
    return;
  }
  const std::size_t bytes = table_bytes(table);
  trackers_->log_table(std::move(table), options.step, bytes);
}

std::shared_ptr<GeneralTracker> RunTrackers::get(
    const std::string& name) const {
  if (std::ranges::find(names_, name) == names_.end()) {
    throw ArgumentError(
        str_cat("this run has no tracker `", name, "`"),
        names_.empty()
            ? "add it to `log_with`"
            : str_cat("use one of its trackers: ", join(names_, ", ")));
  }
  const auto tracker = trackers_ ? trackers_->find(name) : nullptr;
  return tracker ? tracker : std::make_shared<BlankTracker>(name);
}

void RunTrackers::finish() {
  trackers_.reset();
}

Json RunTrackers::state_dict() const {
  return trackers_ && !trackers_->empty() ? trackers_->state_dict() : Json();
}

void RunTrackers::load_state_dict(const Json& state) {
  loaded_ = state;
  if (trackers_) {
    trackers_->load_state_dict(state);
  }
}

}  // namespace accelerate

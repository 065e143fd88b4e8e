// SPDX-License-Identifier: Apache-2.0
#include "transformers/loading.h"

#include <algorithm>
#include <iostream>

#include <torch/types.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/environment.h"
#include "device/out_of_memory.h"
#include "transformers/heads.h"
#include "transformers/hub.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::FormatError;
using accelerate::printable;
using accelerate::str_cat;
using accelerate::TensorMap;

struct DtypeName {
  std::string_view name;
  c10::ScalarType dtype;
};
constexpr DtypeName kDtypes[] = {
    {"float32", c10::ScalarType::Float},
    {"float16", c10::ScalarType::Half},
    {"bfloat16", c10::ScalarType::BFloat16},
    {"float64", c10::ScalarType::Double},
    {"float", c10::ScalarType::Float},
    {"half", c10::ScalarType::Half},
    {"double", c10::ScalarType::Double},
};

const ModelClass& class_for(Task task, const Config& config) {
  const Architecture& found =
      architecture(config.model_type(), std::string(config.model_type()));
  const auto entry = found.classes.find(task);
  if (entry == found.classes.end()) {
    throw accelerate::UnsupportedError(str_cat(
        "models of type `",
        config.model_type(),
        "` have no head for ",
        name_of(task)));
  }
  return entry->second;
}

[[noreturn]] void throw_dtype(const std::string& name) {
  throw ArgumentError(str_cat(
      "`dtype` is ",
      name,
      "; weights must be float32, bfloat16, float16 or float64"));
}

// Returns the type that the options request, or else the type in the config.
std::optional<c10::ScalarType> requested_dtype(
    const std::optional<c10::ScalarType>& option,
    const PretrainedConfig& common) {
  if (option) {
    if (dtype_name(*option).empty()) {
      throw_dtype(c10::toString(*option));
    }
    return option;
  }
  if (!common.dtype) {
    return std::nullopt;
  }
  const auto named = dtype_from_name(*common.dtype);
  if (!named) {
    throw_dtype(str_cat("`", printable(*common.dtype), "`"));
  }
  return named;
}

// Makes a model with uninitialized weights.
std::shared_ptr<ModelModule> make_module(
    const ModelClass& model_class, const Config& config) {
  config.value().check();
  return accelerate::with_memory_errors(c10::Device(c10::kCPU), [&] {
    auto module = model_class.make(config);
    module->report.model = model_class.name;
    return module;
  });
}

void apply(const FromPretrainedOptions& options, PretrainedConfig& common) {
  if (options.num_labels) {
    if (*options.num_labels < 1) {
      throw ArgumentError(
          str_cat("`num_labels` is ", *options.num_labels), "pass 1 or more");
    }
    if (*options.num_labels != common.num_labels) {
      common.id2label.clear();
    }
    common.num_labels = *options.num_labels;
  }
  if (options.id2label) {
    const auto count = static_cast<std::int64_t>(options.id2label->size());
    if (options.num_labels && *options.num_labels != count) {
      throw ArgumentError(str_cat(
          "`num_labels` is ",
          *options.num_labels,
          ", but the number of labels in `id2label` is ",
          count));
    }
    common.id2label = *options.id2label;
    common.num_labels = count;
  }
  if (options.problem_type) {
    common.problem_type = options.problem_type;
  }
}

void set_attention(
    ModelModule& module, const std::optional<std::string>& name) {
  if (name && *name != "sdpa" && *name != "eager") {
    throw ArgumentError(str_cat(
        "`attn_implementation` is `",
        printable(*name),
        "`, but must be sdpa or eager"));
  }
  module.set_eager_attention(name == "eager");
}

void set_dtype(ModelModule& module, c10::ScalarType dtype) {
  for (const auto& parameter : module.parameters()) {
    if (parameter.scalar_type() != dtype) {
      parameter.set_data(parameter.data().to(dtype));
    }
  }
}

void initialize(ModelModule& module, const Initializer::Loaded& loaded) {
  // 0 means "not set", as in Hugging Face Transformers.
  const double stddev = module.initializer_range();
  initialize_all(module, Initializer(stddev == 0.0 ? 0.02 : stddev, loaded));
}

// Loads a file's tensors into a model's parameters.
class WeightLoader {
 public:
  WeightLoader(
      ModelModule& module,
      const Architecture& architecture,
      const FromPretrainedOptions& options)
      : module_(module), architecture_(architecture), options_(options) {
    for (const auto& item : module.named_parameters()) {
      parameters_.emplace(item.key(), item.value());
    }
    tied_ = module.tied_names();
  }

  void load(const TensorMap& tensors, c10::ScalarType dtype) {
    TensorMap found;
    for (const auto& [name, tensor] : tensors) {
      if (const std::optional<std::string> full = find(name)) {
        found[*full] = tensor;
      } else if (!is_ignored(name)) {
        module_.report.unexpected.push_back(name);
      }
    }
    for (const auto& [name, target] : tied_) {
      if (!parameters_.contains(name) && found.contains(name)) {
        resolve_tie(name, target, found, dtype);
      }
    }
    for (const auto& [name, tensor] : found) {
      fill(name, tensor, dtype);
    }
    for (const auto& [name, parameter] : parameters_) {
      if (!loaded.contains(parameter.unsafeGetTensorImpl()) &&
          !std::ranges::count(module_.report.mismatched, name)) {
        module_.report.missing.push_back(name);
      }
    }
  }

  Initializer::Loaded loaded;

 private:
  // Returns the name of the parameter or tied weight for a name in the file.
  // Names in the file of a model with a head have a prefix, and names in the
  // file of a base model do not. A file of either kind can be loaded into a
  // model of either kind.
  std::optional<std::string> find(const std::string& name) const {
    const std::string prefix = module_.base_model_prefix() + ".";
    for (std::string candidate : {name, renamed(name)}) {
      for (const std::string& full :
           {candidate,
            prefix + candidate,
            candidate.starts_with(prefix) ? candidate.substr(prefix.size())
                                          : candidate}) {
        if (parameters_.contains(full) || tied_.contains(full)) {
          return full;
        }
      }
    }
    return std::nullopt;
  }

  // Checkpoints converted from TensorFlow call a norm's weights gamma and beta.
  static std::string renamed(const std::string& name) {
    if (name.ends_with("LayerNorm.gamma")) {
      return name.substr(0, name.size() - 5) + "weight";
    }
    if (name.ends_with("LayerNorm.beta")) {
      return name.substr(0, name.size() - 4) + "bias";
    }
    return name;
  }

  bool is_ignored(const std::string& name) const {
    return std::ranges::any_of(
        architecture_.ignored,
        [&](const std::string& end) { return name.ends_with(end); });
  }

  // `found` contains a value for `name`, which the config ties to `target`.
  // Unties the two if `found` contains a different value for `target`.
  void resolve_tie(
      const std::string& name,
      const std::string& target,
      TensorMap& found,
      c10::ScalarType dtype) {
    const auto other = found.find(target);
    if (other == found.end()) {
      auto entry = found.extract(name);
      entry.key() = target;
      found.insert(std::move(entry));
      return;
    }
    if (found.at(name).to(dtype).equal(other->second.to(dtype))) {
      found.erase(name);
      return;
    }
    const auto dot = name.rfind('.');
    auto& projection = dynamic_cast<VocabularyProjection&>(
        *module_.named_modules()[name.substr(0, dot)]);
    projection.untie(name.substr(dot + 1));
    parameters_.emplace(name, module_.named_parameters()[name]);
    module_.report.untied.emplace_back(name, target);
  }

  void fill(
      const std::string& name,
      const at::Tensor& tensor,
      c10::ScalarType dtype) {
    const at::Tensor& parameter = parameters_.at(name);
    if (parameter.sizes() != tensor.sizes()) {
      mismatch(name, parameter, tensor);
      return;
    }
    parameter.set_data(tensor.to(dtype));
    loaded.insert(parameter.unsafeGetTensorImpl());
  }

  void mismatch(
      const std::string& target,
      const at::Tensor& parameter,
      const at::Tensor& tensor) {
    if (!options_.ignore_mismatched_sizes) {
      throw FormatError(
          str_cat(
              module_.report.source,
              ": `",
              printable(target),
              "` has shape ",
              tensor.sizes(),
              ", but the model needs ",
              parameter.sizes()),
          "use the sizes in the folder's config, or set "
          "`.ignore_mismatched_sizes = true` to initialize the weight "
          "randomly");
    }
    module_.report.mismatched.push_back(target);
  }

  ModelModule& module_;
  const Architecture& architecture_;
  const FromPretrainedOptions& options_;
  std::map<std::string, at::Tensor> parameters_;
  std::map<std::string, std::string> tied_;
};

c10::ScalarType dtype_in(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!dtype_name(tensor.scalar_type()).empty()) {
      return tensor.scalar_type();
    }
  }
  return c10::ScalarType::Float;
}

}  // namespace

std::optional<c10::ScalarType> dtype_from_name(std::string_view name) {
  if (name.starts_with("torch.")) {
    name.remove_prefix(6);
  }
  const auto* found = std::ranges::find(kDtypes, name, &DtypeName::name);
  return found == std::end(kDtypes) ? std::nullopt
                                    : std::optional(found->dtype);
}

std::string_view dtype_name(c10::ScalarType dtype) {
  const auto* found = std::ranges::find(kDtypes, dtype, &DtypeName::dtype);
  return found == std::end(kDtypes) ? std::string_view() : found->name;
}

namespace {

// This library does not depend on process groups, so it reads the rank from the
// environment. A message that is the same for all processes is printed only
// once.
bool is_first_process() {
  const auto environment = accelerate::Environment::of_this_process();
  for (const char* name :
       {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"}) {
    if (const auto rank = environment.get(name)) {
      return *rank == "0";
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<ModelModule> load_model(
    Task task, const std::string& name, const FromPretrainedOptions& options) {
  const std::filesystem::path folder = hub::resolve_folder(name, options.hub);
  Config config = options.config ? *options.config
                                 : AutoConfig::from_pretrained(folder.string());
  apply(options, config.common());
  const ModelClass& model_class = class_for(task, config);
  const auto requested = requested_dtype(options.dtype, config.common());
  const TensorMap tensors = accelerate::load_sharded(folder);
  const auto dtype = requested ? *requested : dtype_in(tensors);
  config.common().dtype = dtype_name(dtype);

  auto module = make_module(model_class, config);
  module->report.source = folder.string();
  WeightLoader loader(
      *module, architecture(config.model_type(), name), options);
  loader.load(tensors, dtype);
  initialize(*module, loader.loaded);
  set_dtype(*module, dtype);
  set_attention(*module, options.attn_implementation);
  module->eval();  // As in Hugging Face Transformers.
  if (options.report && is_first_process()) {
    std::cerr << module->report.text() << std::flush;
  }
  return module;
}

std::shared_ptr<ModelModule> make_model(
    Task task, const Config& config, const FromConfigOptions& options) {
  const ModelClass& model_class = class_for(task, config);
  const auto dtype = requested_dtype(options.dtype, config.common())
                         .value_or(c10::ScalarType::Float);
  auto module = make_module(model_class, config);
  initialize(*module, {});
  set_dtype(*module, dtype);
  module->config.common().dtype = dtype_name(dtype);
  set_attention(*module, options.attn_implementation);
  return module;
}

}  // namespace transformers

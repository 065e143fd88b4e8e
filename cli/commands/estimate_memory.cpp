// SPDX-License-Identifier: Apache-2.0
// `accelerate estimate-memory`: prints the memory that a model needs, computed
// from the shapes of its weights.
#include "cli/commands/estimate_memory.h"

#include <algorithm>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/machine_rendezvous.h"
#include "launch/model_size.h"

namespace accelerate {
namespace {

struct Type {
  const char* name;
  double bytes;
  bool trains;  // Whether the type can be trained; integers have no gradients.
};
constexpr Type kTypes[] = {
    {"float32", 4, true},
    {"float16", 2, true},
    {"bfloat16", 2, true},
    {"int8", 1, false},
    {"int4", 0.5, false}};

std::vector<Type> chosen_types(const ParsedArgs& arguments) {
  const auto text = arguments.get("dtypes");
  if (!text) {
    return {kTypes[0], kTypes[1], kTypes[3], kTypes[4]};
  }
  std::vector<Type> types;
  std::vector<std::string> names;
  for (const Type& type : kTypes) {
    names.push_back(type.name);
  }
  for (const std::string& word : split(*text, ',')) {
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) {
      throw ConfigError(
          str_cat(
              "--dtypes contains `",
              printable(word),
              "`, but may contain only ",
              join(names, ", ")),
          did_you_mean(word, names));
    }
    types.push_back(kTypes[found - names.begin()]);
  }
  return types;
}

std::int64_t chosen_processes(const ParsedArgs& arguments) {
  const auto text = arguments.get("num_processes");
  return text ? parse_setting(
                    *find_setting("num_processes"), *text, "--num_processes")
                    .as_integer()
              : 1;
}

Json training_json(
    const ModelSize& size, const Type& type, std::int64_t processes) {
  if (!type.trains) {
    return {};
  }
  Json training = Json::array();
  for (int stage = 0; stage <= 3; ++stage) {
    const auto bytes =
        training_bytes(size.parameters(), type.bytes, stage, processes);
    training.push_back(Json::object(
        {{"zero_stage", stage},
         {"weights", bytes.weights},
         {"gradients", bytes.gradients},
         {"optimizer", bytes.optimizer},
         {"total", bytes.total()}}));
  }
  return training;
}

Json to_json(
    const ModelSize& size,
    const std::vector<Type>& types,
    std::int64_t processes) {
  Json loading = Json::object();
  Json training = Json::object();
  for (const Type& type : types) {
    training[type.name] = training_json(size, type, processes);
    loading[type.name] = Json::object(
        {{"largest_layer",
          type.bytes * static_cast<double>(size.largest().parameters)},
         {"total", type.bytes * static_cast<double>(size.parameters())}});
  }
  return Json::object(
      {{"source", size.source},
       {"parameters", size.parameters()},
       {"largest_layer", size.largest().name},
       {"num_processes", processes},
       {"loading_bytes", loading},
       {"training_bytes_per_process", training}});
}

using Table = std::vector<std::vector<std::string>>;

Table loading_table(const ModelSize& size, const std::vector<Type>& types) {
  Table table = {{"dtype", "largest layer", "total"}};
  for (const Type& type : types) {
    table.push_back(
        {type.name,
         format_bytes(
             type.bytes * static_cast<double>(size.largest().parameters)),
         format_bytes(type.bytes * static_cast<double>(size.parameters()))});
  }
  return table;
}

Table training_table(
    const ModelSize& size,
    const std::vector<Type>& types,
    std::int64_t processes) {
  Table table = {
      {"dtype", "ZeRO stage", "weights", "gradients", "optimizer", "total"}};
  for (const Type& type : types) {
    if (!type.trains) {
      table.push_back({type.name, "N/A", "N/A", "N/A", "N/A", "N/A"});
      continue;
    }
    for (int stage = 0; stage <= 3; ++stage) {
      const auto bytes =
          training_bytes(size.parameters(), type.bytes, stage, processes);
      table.push_back(
          {type.name,
           std::to_string(stage),
           format_bytes(bytes.weights),
           format_bytes(bytes.gradients),
           format_bytes(bytes.optimizer),
           format_bytes(bytes.total())});
    }
  }
  return table;
}

std::string to_text(
    const ModelSize& size,
    const std::vector<Type>& types,
    std::int64_t processes) {
  return str_cat(
      size.source,
      ": ",
      size.parameters(),
      " parameters; the largest layer is ",
      size.largest().name,
      "\n\nTo load the model:\n\n",
      format_table(loading_table(size, types)),
      "\n\nTo train the model with Adam on ",
      processes,
      processes == 1 ? " process" : " processes",
      " (memory per process, without activations;\nmixed precision needs as "
      "much as float32):\n\n",
      format_table(training_table(size, types, processes)));
}

}  // namespace

const CommandInfo& estimate_memory_info() {
  static const CommandInfo info = {
      .name = "estimate-memory",
      .summary = "Show how much memory a model needs to load and to train.",
      .usage = "estimate-memory <folder | config.json | file.safetensors>",
      .options =
          {{.name = "dtypes",
            .value_name = "TYPES",
            .help = "Data types to load the model in, comma-separated.",
            .default_text = "float32,float16,int8,int4"},
           {.name = "num_processes",
            .value_name = "N",
            .help =
                "Processes that split the training state at ZeRO stages 1 to "
                "3.",
            .default_text = "1"},
           {.name = "json", .help = "Print JSON, with sizes in bytes."}},
      .min_positional = 1,
      .max_positional = 1,
      .notes =
          "Creates no tensors: the shapes come from the headers of safetensors "
          "files, or from config.json.",
      .examples =
          {"accelerate estimate-memory models/bert-base-cased",
           "accelerate estimate-memory --num_processes 8 config.json"},
  };
  return info;
}

int run_estimate_memory(const ParsedArgs& arguments, CommandContext& context) {
  const auto types = chosen_types(arguments);
  const std::int64_t processes = chosen_processes(arguments);
  const ModelSize size = read_model_size(arguments.positional[0]);
  context.console.print(
      arguments.has("json")
          ? to_json(size, types, processes).dump({.indent = 2})
          : to_text(size, types, processes));
  return 0;
}

}  // namespace accelerate

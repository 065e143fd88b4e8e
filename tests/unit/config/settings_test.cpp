// SPDX-License-Identifier: Apache-2.0
#include "config/settings.h"

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <pwd.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "config/config_file.h"
#include "config/user_folders.h"
#include "config/yaml.h"

namespace accelerate {
namespace {

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.hint().empty()
               ? error.what()
               : std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

std::string load_error(
    const std::string& text, SettingFile kind = SettingFile::python) {
  return error_of([&] {
    Settings settings;
    apply_config_text(settings, text, "c.yaml", kind);
    check_contradictions(settings);
  });
}

TEST(Registry, NamesAndFlagsAreUnique) {
  std::set<std::string> names;
  std::set<std::string> flags;
  for (const Setting& setting : all_settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_TRUE(setting.flag.empty() || flags.insert(setting.flag).second);
    EXPECT_EQ(find_python_flag(setting.flag), nullptr) << setting.flag;
    EXPECT_TRUE(setting.help.ends_with(".")) << setting.name;
    EXPECT_EQ(setting.type == SettingType::choice, !setting.choices.empty());
  }
}

TEST(Settings, LaterSourcesOverrideEarlierOnes) {
  Settings settings;
  EXPECT_EQ(settings.origin("mixed_precision").text(), "default");
  apply_config_text(
      settings, "mixed_precision: fp16\n", "c.yaml", SettingFile::python);
  EXPECT_EQ(settings.origin("mixed_precision").text(), "c.yaml:1");
  const std::map<std::string, std::string> variables = {
      {"ACCELERATE_MIXED_PRECISION", "BF16"}};
  settings.apply(Environment(variables));
  EXPECT_EQ(settings.text("mixed_precision"), "bf16");
  EXPECT_EQ(
      settings.origin("mixed_precision").text(),
      "environment: ACCELERATE_MIXED_PRECISION");

  settings.apply_flag(
      *find_setting("mixed_precision"), "no", "--mixed_precision");

  EXPECT_EQ(settings.text("mixed_precision"), "no");
  EXPECT_TRUE(settings.is_from_command_line("mixed_precision"));
}

TEST(Settings, ErrorsListTheAllowedValues) {
  const auto flag = [](const char* name, const char* text) {
    return error_of([&] {
      Settings().apply_flag(
          *find_setting(name), text, std::string("--") + name);
    });
  };

  EXPECT_EQ(
      flag("mixed_precision", "f16"),
      "--mixed_precision is `f16`, but must be one of no, fp16, bf16 | did you "
      "mean "
      "`fp16`?");
  EXPECT_EQ(
      flag("mixed_precision", "fp8"),
      "--mixed_precision is `fp8`, which this version does not support | use "
      "bf16");
  EXPECT_EQ(
      flag("num_processes", "two"),
      "--num_processes is `two`, but must be a whole number from 1 to 65536");
  EXPECT_EQ(
      flag("num_processes", "0"),
      "--num_processes is `0`, but must be a whole number from 1 to 65536");
  EXPECT_EQ(
      flag("main_process_port", "65536"),
      "--main_process_port is `65536`, but must be a whole number from 0 to "
      "65535");
  EXPECT_EQ(
      flag("monitor_interval", "nan"),
      "--monitor_interval is `nan`, but must be a number from 0 to 3600");
}

TEST(Settings, ContradictionsNameBothSources) {
  Settings settings;
  settings.apply_flag(*find_setting("use_cpu"), "true", "--cpu");
  settings.apply_flag(*find_setting("multi_gpu"), "true", "--multi_gpu");

  EXPECT_EQ(
      error_of([&] { check_contradictions(settings); }),
      "--cpu and --multi_gpu contradict each other | remove one of them");
  EXPECT_EQ(
      load_error("distributed_type: 'NO'\nnum_processes: 2\n"),
      "`num_processes: 2` (c.yaml:2) and `distributed_type: NO` (c.yaml:1) "
      "contradict each other | set `distributed_type` to MULTI_CPU or "
      "MULTI_GPU");
  EXPECT_EQ(
      load_error(
          "distributed_type: MULTI_GPU\nnum_machines: 2\nmachine_rank: 2\n"),
      "`machine_rank: 2` (c.yaml:3): there is no machine 2; "
      "`num_machines` is 2, and ranks start at 0");
}

TEST(Settings, CpuFlagOverridesGpusInAFile) {
  Settings settings;
  apply_config_text(
      settings, "distributed_type: MULTI_GPU\n", "c.yaml", SettingFile::python);
  settings.apply_flag(*find_setting("use_cpu"), "true", "--cpu");

  EXPECT_NO_THROW(check_contradictions(settings));
}

TEST(ConfigFile, UnknownKeysReportTheLineAndTheNearestKey) {
  EXPECT_EQ(
      load_error("distributed_type: 'NO'\nnum_proceses: 2\n"),
      "c.yaml:2: unknown key `num_proceses` | did you mean `num_processes`?");
  EXPECT_EQ(
      load_error("max_restarts: 2\n"),
      "c.yaml:1: unknown key `max_restarts` | move `max_restarts` to "
      "accelerate_cpp.yaml in the same folder");
  EXPECT_EQ(
      load_error("num_processes: 2\n", SettingFile::cpp),
      "c.yaml:1: unknown key `num_processes`");
  EXPECT_EQ(
      load_error("multi_gpu: true\n"),
      "c.yaml:1: unknown key `multi_gpu` | pass it as `--multi_gpu`");
}

TEST(ConfigFile, KeysOfUnsupportedFeaturesNeedInertValues) {
  EXPECT_EQ(
      load_error("distributed_type: 'NO'\ndeepspeed_config: {}\ntpu_env: []\n"
                 "downcast_bf16: 'no'\ndynamo_config:\n  dynamo_backend: 'NO'\n"
                 "main_training_function: main\ntpu_name: null\n"),
      "no error");
  EXPECT_EQ(
      load_error("deepspeed_config:\n  zero_stage: 2\n"),
      "c.yaml:1: `deepspeed_config: {…}` is for DeepSpeed, which this version "
      "does not support | remove the line, or set the key to `{}`");
  EXPECT_EQ(
      load_error("distributed_type: FSDP\n"),
      "c.yaml:1: `distributed_type: FSDP` requests FSDP, which this version "
      "does not support");
  EXPECT_EQ(
      load_error("dynamo_config:\n  dynamo_backend: INDUCTOR\n"),
      "c.yaml:2: `dynamo_backend: INDUCTOR` is for torch.compile, which this "
      "version does not support | remove the line, or set the key to `no`");
}

// Searching from the beginning for each key takes seven seconds for a megabyte.
TEST(ConfigFile, FindsTheLinesOfManyKeysInOnePass) {
  std::string text = "{\n";
  for (int i = 0; i < 9000; ++i) {
    text +=
        "\"key" + std::to_string(i) + "\": \"" + std::string(80, 'x') + "\",\n";
  }
  text += "\"word\": \"last\",\n\"a\": {\n\"a\": 1},\n\"last\": 2}";
  const auto before = std::chrono::steady_clock::now();

  const ConfigNode node = parse_config(text, "c.json");

  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
  ASSERT_EQ(node.members.size(), 9003U);
  EXPECT_EQ(node.members[8999].line, 9001);
  EXPECT_EQ(node.members[9001].line, 9003);
  EXPECT_EQ(node.members[9001].value.members[0].line, 9004);
  EXPECT_EQ(node.members[9002].line, 9005) << "a value has the same text";
}

TEST(ConfigFile, ReadsOldKeys) {
  Settings settings;
  apply_config_text(
      settings,
      "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\n"
      "fp16: true\ndynamo_backend: 'NO'\nnum_processes: 2\n",
      "c.yaml",
      SettingFile::python);

  EXPECT_EQ(settings.text("mixed_precision"), "fp16");
  EXPECT_EQ(settings.origin("mixed_precision").text(), "c.yaml:3");
}

TEST(ConfigFile, MalformedTextReportsTheLine) {
  EXPECT_EQ(
      load_error("debug: true\ndebug: false\n"),
      "c.yaml:2: the key `debug` appears twice, first on line 1");
  EXPECT_EQ(load_error("- 1\n- 2\n"), "c.yaml:1: expected `key: value` lines");
  EXPECT_EQ(
      load_error("debug: true\nx: [1, 2\n").substr(0, 24),
      "c.yaml:3: malformed YAML");
  EXPECT_EQ(
      load_error("debug: true\n\xff\xfe"), "c.yaml:2: byte 12 is not UTF-8");
  EXPECT_EQ(
      load_error("debug: true\n---\ndebug: false\n").substr(0, 40),
      "c.yaml:3: the file has a second document");
  EXPECT_EQ(
      load_error("debug: [1]\n"),
      "c.yaml:1: `debug` is a list, but must be true or false");
}

TEST(ConfigFile, RejectsYamlBombsQuickly) {
  EXPECT_EQ(
      load_error(std::string(1 << 20, '[')),
      "c.yaml:1: nested more than 64 levels deep");
  std::string deep;
  for (int i = 0; i < 1000; ++i) {
    deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  }
  EXPECT_EQ(load_error(deep), "c.yaml:65: nested more than 64 levels deep");
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 9; ++j) {
      laughs += (j > 0 ? ", " : "") + before;
    }
    laughs += "]\n";
  }
  EXPECT_EQ(
      load_error(laughs), "c.yaml:5: the file has more than 10000 values");
}

// The file has 0.9 MB, but its aliases expand to 4 GB.
TEST(ConfigFile, CountsTheBytesOfAliases) {
  std::string text = "a: &a " + std::string(900'000, 'x') + "\nb: [";
  for (int i = 0; i < 5'000; ++i) {
    text += i > 0 ? ", *a" : "*a";
  }
  EXPECT_EQ(
      load_error(text + "]\n"),
      "c.yaml:2: the file has more than 4194304 bytes after its aliases are "
      "expanded");

  std::string keys = "a: &a {";
  for (int i = 0; i < 900; ++i) {
    keys += std::to_string(1000 + i) + std::string(996, 'k') + ": 1,";
  }
  keys += "}\nb: [";
  for (int i = 0; i < 5; ++i) {
    keys += i > 0 ? ", *a" : "*a";
  }
  EXPECT_EQ(
      load_error(keys + "]\n"),
      "c.yaml:2: the file has more than 4194304 bytes after its aliases are "
      "expanded");
}

TEST(ConfigFile, WrittenFilesAreReadBack) {
  Settings settings;
  const Origin origin{Origin::Kind::command_line, "test"};
  settings.set("distributed_type", "MULTI_GPU", origin);
  settings.set("num_processes", 2, origin);
  settings.set("gpu_ids", "0,1", origin);
  settings.set("mpirun_hostfile", "/a b/it's", origin);
  settings.set("max_restarts", 3, origin);
  settings.set("log_dir", "no", origin);

  for (const char* path : {"c.yaml", "c.json"}) {
    Settings read;
    apply_config_text(
        read, python_file_text(settings, path), path, SettingFile::python);
    apply_config_text(
        read, cpp_file_text(settings), "cpp.yaml", SettingFile::cpp);
    for (const Setting& setting : all_settings()) {
      EXPECT_EQ(read.value(setting.name), settings.value(setting.name))
          << path << " " << setting.name;
    }
  }
  EXPECT_EQ(cpp_file_text(settings), "log_dir: 'no'\nmax_restarts: 3\n");
}

TEST(ConfigFile, WritesTheKeysOfHuggingFaceAccelerate) {
  Settings settings;
  settings.set("distributed_type", "NO", {});
  settings.set("num_processes", 1, {});

  EXPECT_EQ(
      python_file_text(settings, "c.yaml"),
      "compute_environment: LOCAL_MACHINE\n"
      "debug: false\n"
      "distributed_type: 'NO'\n"
      "downcast_bf16: 'no'\n"
      "enable_cpu_affinity: false\n"
      "gpu_ids: all\n"
      "machine_rank: 0\n"
      "main_training_function: main\n"
      "mixed_precision: 'no'\n"
      "num_machines: 1\n"
      "num_processes: 1\n"
      "rdzv_backend: static\n"
      "same_network: true\n"
      "tpu_env: []\n"
      "tpu_use_cluster: false\n"
      "tpu_use_sudo: false\n"
      "use_cpu: false\n");
}

TEST(ConfigFile, DefaultPathMatchesHuggingFaceAccelerate) {
  const auto path = [](std::map<std::string, std::string> variables) {
    return default_config_path(Environment(std::move(variables))).string();
  };

  EXPECT_EQ(
      path({{"HOME", "/h"}}),
      "/h/.cache/huggingface/accelerate/default_config.yaml");
  EXPECT_EQ(
      path({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}),
      "/x/huggingface/accelerate/default_config.yaml");
  EXPECT_EQ(
      path({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "~/hf"}}),
      "/h/hf/accelerate/default_config.yaml");
}

TEST(UserFolders, FindTheHomeFolderWithoutTheVariable) {
  const passwd* const user = ::getpwuid(::getuid());
  ASSERT_NE(user, nullptr);

  EXPECT_EQ(
      expand_home("~/data", Environment()),
      std::filesystem::path(user->pw_dir) / "data");
  const Environment environment(
      std::map<std::string, std::string>{{"HOME", "/h"}});
  EXPECT_EQ(expand_home("~", environment), "/h/");
  EXPECT_EQ(expand_home("~bob/x", environment), "~bob/x");
}

}  // namespace
}  // namespace accelerate

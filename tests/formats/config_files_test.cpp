// SPDX-License-Identifier: Apache-2.0
// Configuration files from every release of this library and from Hugging Face
// Accelerate. All of them must remain loadable.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "config/config_file.h"

namespace accelerate {
namespace {

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(ACCELERATE_TEST_DATA) / "configs" / name;
}

Settings load(const std::string& name, SettingFile kind = SettingFile::python) {
  Settings settings;
  apply_config_file(settings, golden(name), kind);
  check_contradictions(settings);
  return settings;
}

TEST(PythonConfig, LoadsOldFp16File) {
  const Settings settings = load("hf_0_11_fp16.yaml");

  EXPECT_EQ(settings.text("mixed_precision"), "fp16");
  EXPECT_EQ(settings.integer("num_processes"), 4);
  EXPECT_EQ(settings.text("main_process_ip"), "");
}

TEST(PythonConfig, LoadsOldDynamoFile) {
  EXPECT_EQ(load("hf_0_20_dynamo.yaml").text("mixed_precision"), "bf16");
}

TEST(PythonConfig, LoadsSeveralMachines) {
  const Settings settings = load("hf_1_0_multi_node.yaml");

  EXPECT_TRUE(settings.flag("debug"));
  EXPECT_TRUE(settings.flag("enable_cpu_affinity"));
  EXPECT_EQ(settings.text("gpu_ids"), "0,1");
  EXPECT_EQ(settings.integer("machine_rank"), 1);
  EXPECT_EQ(settings.text("main_process_ip"), "10.0.0.5");
  EXPECT_EQ(settings.integer("main_process_port"), 29501);
  EXPECT_EQ(settings.text("rdzv_backend"), "c10d");
  EXPECT_FALSE(settings.flag("same_network"));
}

TEST(PythonConfig, LoadsMpiFile) {
  const Settings settings = load("hf_1_0_multi_cpu.yaml");

  EXPECT_EQ(settings.text("mpirun_hostfile"), "/home/me/hostfile");
  EXPECT_TRUE(settings.flag("use_cpu"));
}

TEST(PythonConfig, LoadsJson) {
  EXPECT_TRUE(load("hf_1_15.json").flag("use_cpu"));
}

TEST(PythonConfig, UnsupportedSettingsAreRefused) {
  for (const auto& [name, text] :
       {std::pair(
            "refused_deepspeed.yaml",
            ":2: `deepspeed_config: {…}` is for "
            "DeepSpeed, which this version "
            "does not support"),
        std::pair(
            "refused_sagemaker.yaml",
            ":1: `base_job_name: accelerate-sagemaker-1` is for Amazon "
            "SageMaker, which this version "
            "does not support")}) {
    try {
      load(name);
      ADD_FAILURE() << name << " loaded";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.what(), golden(name).string() + text);
    }
  }
}

TEST(CppConfig, LoadsEverySetting) {
  const Settings settings = load("accelerate_cpp_0_1.yaml", SettingFile::cpp);

  for (const Setting& setting : all_settings()) {
    if (setting.file == SettingFile::cpp) {
      EXPECT_TRUE(settings.is_set_by_user(setting.name)) << setting.name;
    }
  }
}

}  // namespace
}  // namespace accelerate

// SPDX-License-Identifier: Apache-2.0
// Files of every release, the peer's and ours, that must keep loading.
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

Settings load(const std::string& name, SettingFile kind = SettingFile::peer) {
  Settings settings;
  apply_config_file(settings, golden(name), kind);
  check_contradictions(settings);
  return settings;
}

TEST(PeerConfig, OldFp16FileLoads) {
  const Settings settings = load("peer_0_11_fp16.yaml");

  EXPECT_EQ(settings.text("mixed_precision"), "fp16");
  EXPECT_EQ(settings.integer("num_processes"), 4);
  EXPECT_EQ(settings.text("main_process_ip"), "");
}

TEST(PeerConfig, OldDynamoFileLoads) {
  EXPECT_EQ(load("peer_0_20_dynamo.yaml").text("mixed_precision"), "bf16");
}

TEST(PeerConfig, SeveralMachinesLoad) {
  const Settings settings = load("peer_1_0_multi_node.yaml");

  EXPECT_TRUE(settings.flag("debug"));
  EXPECT_TRUE(settings.flag("enable_cpu_affinity"));
  EXPECT_EQ(settings.text("gpu_ids"), "0,1");
  EXPECT_EQ(settings.integer("machine_rank"), 1);
  EXPECT_EQ(settings.text("main_process_ip"), "10.0.0.5");
  EXPECT_EQ(settings.integer("main_process_port"), 29501);
  EXPECT_EQ(settings.text("rdzv_backend"), "c10d");
  EXPECT_FALSE(settings.flag("same_network"));
}

TEST(PeerConfig, MpiFileLoads) {
  const Settings settings = load("peer_1_0_multi_cpu.yaml");

  EXPECT_EQ(settings.text("mpirun_hostfile"), "/home/me/hostfile");
  EXPECT_TRUE(settings.flag("use_cpu"));
}

TEST(PeerConfig, JsonLoads) {
  EXPECT_TRUE(load("peer_1_15.json").flag("use_cpu"));
}

TEST(PeerConfig, WhatWeLackIsRefusedByName) {
  for (const auto& [name, text] :
       {std::pair(
            "refused_deepspeed.yaml",
            ":2: `deepspeed_config: {…}` is for "
            "DeepSpeed, which this version "
            "does not have"),
        std::pair(
            "refused_sagemaker.yaml",
            ":1: `base_job_name: accelerate-sagemaker-1` is for Amazon "
            "SageMaker, which this version "
            "does not have")}) {
    try {
      load(name);
      ADD_FAILURE() << name << " loaded";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.what(), golden(name).string() + text);
    }
  }
}

TEST(OwnConfig, EverySettingLoads) {
  const Settings settings = load("accelerate_cpp_0_1.yaml", SettingFile::own);

  for (const Setting& setting : all_settings()) {
    if (setting.file == SettingFile::own) {
      EXPECT_TRUE(settings.is_given(setting.name)) << setting.name;
    }
  }
}

}  // namespace
}  // namespace accelerate

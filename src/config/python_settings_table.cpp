// SPDX-License-Identifier: Apache-2.0
// Features of Hugging Face Accelerate that this version does not support.
// Because of this table, an error names the missing feature instead of
// suggesting a similar setting.
#include "config/setting.h"

namespace accelerate {
namespace {

struct Family {
  const char* feature;
  const char* prefix;
  std::vector<const char*> names;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"torch.compile",
       "dynamo_",
       {"backend",
        "mode",
        "use_fullgraph",
        "use_dynamic",
        "use_regional_compilation"}},
      {"TPU training",
       "",
       {"tpu",
        "tpu_cluster",
        "no_tpu_cluster",
        "tpu_use_sudo",
        "vm",
        "env",
        "main_training_function",
        "downcast_bf16"}},
      {"DeepSpeed",
       "",
       {"use_deepspeed",
        "deepspeed_config_file",
        "zero_stage",
        "offload_optimizer_device",
        "offload_param_device",
        "offload_optimizer_nvme_path",
        "offload_param_nvme_path",
        "gradient_clipping",
        "zero3_init_flag",
        "zero3_save_16bit_model",
        "deepspeed_hostfile",
        "deepspeed_exclusion_filter",
        "deepspeed_inclusion_filter",
        "deepspeed_multinode_launcher",
        "deepspeed_moe_layer_cls_names"}},
      {"FSDP",
       "fsdp_",
       {"version",
        "offload_params",
        "min_num_params",
        "sharding_strategy",
        "reshard_after_forward",
        "auto_wrap_policy",
        "transformer_layer_cls_to_wrap",
        "backward_prefetch",
        "state_dict_type",
        "forward_prefetch",
        "use_orig_params",
        "cpu_ram_efficient_loading",
        "sync_module_states",
        "activation_checkpointing"}},
      {"FSDP", "", {"use_fsdp"}},
      {"Megatron-LM",
       "megatron_lm_",
       {"tp_degree",
        "pp_degree",
        "num_micro_batches",
        "sequence_parallelism",
        "recompute_activations",
        "use_distributed_optimizer",
        "gradient_clipping",
        "use_custom_fsdp",
        "no_load_optim",
        "no_save_optim",
        "eod_mask_loss",
        "optimizer_cpu_offload",
        "overlap_cpu_optimizer_d2h_h2d",
        "use_precision_aware_optimizer",
        "decoder_last_pipeline_num_layers",
        "recompute_granularity",
        "recompute_method",
        "recompute_num_layers",
        "attention_backend",
        "expert_model_parallel_size",
        "context_parallel_size",
        "attention_dropout",
        "hidden_dropout",
        "attention_softmax_in_fp32",
        "expert_tensor_parallel_size",
        "calculate_per_token_loss",
        "use_rotary_position_embeddings"}},
      {"Megatron-LM", "", {"use_megatron_lm"}},
      {"fp8",
       "fp8_",
       {"backend",
        "use_autocast_during_eval",
        "margin",
        "interval",
        "format",
        "amax_history_len",
        "amax_compute_algo",
        "override_linear_precision",
        "opt_level",
        "enable_fsdp_float8_all_gather",
        "pad_inner_dim"}},
      {"n-dimensional parallelism (ParallelismConfig)",
       "parallelism_config_",
       {"dp_replicate_size",
        "dp_shard_size",
        "tp_size",
        "cp_size",
        "sp_size",
        "cp_backend",
        "cp_comm_strategy",
        "sp_backend",
        "sp_seq_length",
        "sp_seq_length_is_variable",
        "sp_attn_implementation"}},
      {"n-dimensional parallelism (ParallelismConfig)",
       "",
       {"use_parallelism_config"}},
      {"Amazon SageMaker", "", {"aws_access_key_id", "aws_secret_access_key"}},
  };
  return all;
}

// Keys in a file, with the values that do not request the feature. "{}" and
// "[]" mean an empty dictionary and list; null never requests the feature.
const std::vector<PythonSetting>& python_keys() {
  static const std::vector<PythonSetting> all = {
      {"main_training_function", "TPU training", {"main"}},
      {"downcast_bf16", "TPU training", {"no", "false"}},
      {"tpu_name", "TPU training", {}},
      {"tpu_zone", "TPU training", {}},
      {"command_file", "TPU training", {}},
      {"commands", "TPU training", {"[]"}},
      {"tpu_vm", "TPU training", {"[]"}},
      {"tpu_env", "TPU training", {"[]"}},
      {"tpu_use_cluster", "TPU training", {"false", "no"}},
      {"tpu_use_sudo", "TPU training", {"false", "no"}},
      {"fp8_config", "fp8", {"{}"}},
      {"deepspeed_config", "DeepSpeed", {"{}"}},
      {"fsdp_config", "FSDP", {"{}"}},
      {"megatron_lm_config", "Megatron-LM", {"{}"}},
      {"dynamo_backend", "torch.compile", {"no"}},
      {"dynamo_backend", "torch.compile", {"no"}, "dynamo_config"},
      {"dynamo_mode", "torch.compile", {"default"}, "dynamo_config"},
      {"dynamo_use_fullgraph", "torch.compile", {"false"}, "dynamo_config"},
      {"dynamo_use_dynamic", "torch.compile", {"false"}, "dynamo_config"},
      {"dynamo_use_regional_compilation",
       "torch.compile",
       {"false"},
       "dynamo_config"},
      {"parallelism_config_dp_replicate_size",
       "n-dimensional parallelism (ParallelismConfig)",
       {"1"},
       "parallelism_config"},
      {"parallelism_config_dp_shard_size",
       "n-dimensional parallelism (ParallelismConfig)",
       {"1"},
       "parallelism_config"},
      {"parallelism_config_tp_size",
       "n-dimensional parallelism (ParallelismConfig)",
       {"1"},
       "parallelism_config"},
      {"parallelism_config_cp_size",
       "n-dimensional parallelism (ParallelismConfig)",
       {"1"},
       "parallelism_config"},
      {"parallelism_config_sp_size",
       "n-dimensional parallelism (ParallelismConfig)",
       {"1"},
       "parallelism_config"},
      {"parallelism_config_cp_backend",
       "n-dimensional parallelism (ParallelismConfig)",
       {"torch"},
       "parallelism_config"},
      {"parallelism_config_cp_comm_strategy",
       "n-dimensional parallelism (ParallelismConfig)",
       {"allgather"},
       "parallelism_config"},
      {"parallelism_config_sp_backend",
       "n-dimensional parallelism (ParallelismConfig)",
       {"deepspeed"},
       "parallelism_config"},
      {"parallelism_config_sp_seq_length",
       "n-dimensional parallelism (ParallelismConfig)",
       {},
       "parallelism_config"},
      {"parallelism_config_sp_seq_length_is_variable",
       "n-dimensional parallelism (ParallelismConfig)",
       {"true"},
       "parallelism_config"},
      {"parallelism_config_sp_attn_implementation",
       "n-dimensional parallelism (ParallelismConfig)",
       {"sdpa"},
       "parallelism_config"},
      {"ec2_instance_type", "Amazon SageMaker", {}},
      {"iam_role_name", "Amazon SageMaker", {}},
      {"image_uri", "Amazon SageMaker", {}},
      {"profile", "Amazon SageMaker", {}},
      {"region", "Amazon SageMaker", {}},
      {"base_job_name", "Amazon SageMaker", {}},
      {"sagemaker_inputs_file", "Amazon SageMaker", {}},
      {"sagemaker_metrics_file", "Amazon SageMaker", {}},
      {"additional_args", "Amazon SageMaker", {"{}"}},
      {"pytorch_version", "Amazon SageMaker", {}},
      {"transformers_version", "Amazon SageMaker", {}},
      {"py_version", "Amazon SageMaker", {}},
  };
  return all;
}

std::vector<PythonSetting> build_table() {
  std::vector<PythonSetting> all;
  for (const Family& family : families()) {
    for (const char* name : family.names) {
      all.push_back({std::string(family.prefix) + name, family.feature, {}});
    }
  }
  for (PythonSetting key : python_keys()) {
    key.is_flag = false;
    key.is_key = true;
    all.push_back(key);
  }
  return all;
}

}  // namespace

const std::vector<PythonSetting>& python_settings() {
  static const std::vector<PythonSetting> all = build_table();
  return all;
}

}  // namespace accelerate

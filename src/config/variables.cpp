// SPDX-License-Identifier: Apache-2.0
#include "config/variables.h"

#include "base/str_cat.h"
#include "config/setting.h"

namespace accelerate {
namespace {

const std::vector<Variable>& other_variables() {
  using enum Variable::Use;
  static const std::vector<Variable> all = {
      {"HF_HOME",
       read,
       "Folder of the configuration file: `$HF_HOME/accelerate`."},
      {"XDG_CACHE_HOME",
       read,
       "Used without HF_HOME: `$XDG_CACHE_HOME/huggingface/accelerate`; also "
       "where compiled single-file programs are kept."},
      {"HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE",
       read,
       "Folder of downloaded models: `$HF_HOME/hub` unless set."},
      {"HF_ENDPOINT",
       read,
       "Server that models come from: https://huggingface.co unless set."},
      {"HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH",
       read,
       "Token for private and gated models, or the file it is in: "
       "`$HF_HOME/token` unless set."},
      {"HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE",
       read,
       "1: models come from the cache alone."},
      {"HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT",
       read,
       "Seconds for an answer of that server, and for a pause in a download: "
       "30 unless set."},
      {"HF_HUB_DISABLE_PROGRESS_BARS, HF_HUB_DISABLE_IMPLICIT_TOKEN",
       read,
       "1: no bar while a model is downloaded; no token from a file."},
      {"HF_DATASETS_CACHE",
       read,
       "Folder of what `Dataset::map` keeps: `$HF_HOME/datasets` unless set."},
      {"NO_COLOR", read, "Any value: no colour."},
      {"CUDA_VISIBLE_DEVICES",
       read,
       "Which GPUs are found; set for workers by `--gpu_ids`."},
      {"ACCELERATE_JOB_SECRET",
       read,
       "The secret machines prove to each other; goes before the file."},
      {"ACCELERATE_TOOLCHAIN",
       read,
       "File that says how single-file programs are compiled, instead of this "
       "installation's own."},
      {"SLURM_JOB_ID, SLURM_JOB_NUM_NODES, SLURM_NODEID, SLURM_JOB_NODELIST",
       read,
       "Under Slurm: number of machines, this one's rank, the main address and "
       "port."},
      {"RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE",
       given,
       "Which worker this is, of how many, in all and on its machine; not with "
       "a single process."},
      {"GROUP_RANK, GROUP_WORLD_SIZE",
       given,
       "Which machine this is, of how many; not with a single process."},
      {"ROLE_NAME, ROLE_RANK, ROLE_WORLD_SIZE",
       given,
       "As torchrun gives them; not with a single process."},
      {"MASTER_ADDR, MASTER_PORT",
       given,
       "Where rank 0 of a program may open a store; not with a single "
       "process."},
      {"TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_MAX_RESTARTS, "
       "TORCHELASTIC_RUN_ID",
       given,
       "Which start of the workers this is, how many there may be, and the "
       "job's name."},
      {"TORCHELASTIC_ERROR_FILE",
       given,
       "Where a worker may leave its exception as JSON, as torchrun's `record` "
       "does."},
      {"ACCELERATE_PROGRESS_FILE",
       given,
       "Eight bytes in which the library keeps the number of its step, for "
       "Ctrl-\\ and the report of a failure."},
      {"TORCHELASTIC_USE_AGENT_STORE",
       given,
       "Always False: the program's rank 0 opens its own store."},
      {"ACCELERATE_DYNAMO_BACKEND, ACCELERATE_DYNAMO_MODE, "
       "ACCELERATE_DYNAMO_USE_FULLGRAPH, ACCELERATE_DYNAMO_USE_DYNAMIC, "
       "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION",
       given,
       "Always off; for scripts written for the Python package."},
      {"ACCELERATE_STORE",
       given,
       "Address of the launcher's store: `unix:PATH` or `tcp:HOST:PORT`."},
      {"ACCELERATE_STORE_SECRET", given, "What a worker proves to that store."},
      {"ACCELERATE_STORE_RANK",
       given,
       "The worker's rank at that store, also with a single process."},
      {"ACCELERATE_STORE_RUN",
       given,
       "The run that store belongs to: TORCHELASTIC_RUN_ID when it is the "
       "worker's own."},
      {"ACCELERATE_LAUNCH_ID",
       given,
       "A name of this launch; every process of it carries it."},
      {"ACCELERATE_RESTART_COUNT",
       given,
       "How often the workers were started again, also with a single process."},
      {"NCCL_P2P_DISABLE, NCCL_IB_DISABLE",
       given,
       "1 for several processes on GeForce cards that cannot reach each "
       "other's memory. Not when set already."},
      {"GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME",
       given,
       "`lo` on one machine; on several, for Gloo, the interface that reaches "
       "machine 0. Not when set already, nor for Python."},
  };
  return all;
}

}  // namespace

std::vector<Variable> all_variables() {
  std::vector<Variable> all;
  for (const Setting& setting : all_settings()) {
    if (!setting.variable.empty()) {
      all.push_back(
          {setting.variable,
           Variable::Use::setting,
           str_cat("The same as `--", setting.flag, "`: ", setting.help)});
    }
  }
  const auto& others = other_variables();
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace accelerate

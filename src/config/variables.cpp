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
       "Folder for Hugging Face files; the configuration is in "
       "`$HF_HOME/accelerate`."},
      {"XDG_CACHE_HOME",
       read,
       "Cache folder. If HF_HOME is not set, the configuration is in "
       "`$XDG_CACHE_HOME/huggingface/accelerate`. Compiled single-file "
       "programs are in `$XDG_CACHE_HOME/accelerate-cpp`."},
      {"HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE",
       read,
       "Folder for downloaded models; `$HF_HOME/hub` by default."},
      {"HF_ENDPOINT",
       read,
       "Server to download models from; https://huggingface.co by default."},
      {"HF_TOKEN, HUGGING_FACE_HUB_TOKEN",
       read,
       "Token for private and gated models."},
      {"HF_TOKEN_PATH",
       read,
       "File with the token, read if HF_TOKEN is not set; `$HF_HOME/token` "
       "by default."},
      {"HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE",
       read,
       "Set either to 1 to use only models in the cache."},
      {"HF_HUB_ETAG_TIMEOUT",
       read,
       "Seconds to wait for a response from the model server; 30 by default."},
      {"HF_HUB_DOWNLOAD_TIMEOUT",
       read,
       "Seconds without data after which a download fails; 30 by default."},
      {"HF_HUB_DISABLE_PROGRESS_BARS",
       read,
       "Set to 1 to hide download progress bars."},
      {"HF_HUB_DISABLE_IMPLICIT_TOKEN",
       read,
       "Set to 1 to ignore the token file."},
      {"HF_DATASETS_CACHE",
       read,
       "Folder for cached results of `Dataset::map`; `$HF_HOME/datasets` by "
       "default."},
      {"MLFLOW_TRACKING_URI",
       read,
       "Address of the MLflow server for the tracker `mlflow`."},
      {"MLFLOW_TRACKING_TOKEN, MLFLOW_TRACKING_USERNAME, "
       "MLFLOW_TRACKING_PASSWORD",
       read,
       "A token, or a name and a password, for the MLflow server."},
      {"WANDB_DIR",
       read,
       "Folder for the runs of the tracker `wandb`; the logging folder by "
       "default."},
      {"WANDB_MODE",
       read,
       "If it is `disabled`, the tracker `wandb` writes nothing; otherwise, it "
       "writes offline runs."},
      {"WANDB_NAME, WANDB_RUN_ID, WANDB_ENTITY, WANDB_TAGS, WANDB_NOTES, "
       "WANDB_RUN_GROUP, WANDB_JOB_TYPE",
       read,
       "Options of the tracker `wandb` that `init_kwargs` does not set."},
      {"TRACKIO_DIR",
       read,
       "Folder for the projects of the tracker `trackio`; `$HF_HOME/trackio` "
       "by default."},
      {"TRACKIO_SQLITE_JOURNAL_MODE",
       read,
       "Journal mode of the databases of the tracker `trackio`; `wal` by "
       "default."},
      {"TRACKIO_STORAGE_MODE",
       read,
       "If it is `jsonl`, the tracker `trackio` does not start, because this "
       "tracker writes only databases."},
      {"TRACKIO_SPACE_ID, TRACKIO_SERVER_URL",
       read,
       "If one is set, the tracker `trackio` warns that it writes only to this "
       "machine."},
      {"NO_COLOR", read, "Any value turns colors off."},
      {"CUDA_VISIBLE_DEVICES",
       read,
       "GPUs that may be used; with `--gpu_ids`, workers see only the "
       "selected ones."},
      {"ACCELERATE_JOB_SECRET",
       read,
       "Secret that authenticates machines to each other; overrides "
       "`--job_secret_file`."},
      {"ACCELERATE_TOOLCHAIN",
       read,
       "File that describes how to compile single-file programs; overrides "
       "this installation's `share/accelerate/toolchain.json`."},
      {"SLURM_STEP_NUM_NODES, SLURM_NODEID",
       read,
       "Number of machines and rank of this machine in a step of a Slurm job."},
      {"SLURM_STEP_NODELIST",
       read,
       "Address of machine 0 in a step of a Slurm job: the first node."},
      {"SLURM_JOB_ID, SLURM_STEP_ID",
       read,
       "The Slurm step. Its machines join only each other, at ports derived "
       "from both numbers."},
      {"SLURM_STEP_NUM_TASKS, SLURM_JOB_NUM_NODES",
       read,
       "Number of launchers in the step and number of nodes in the job, used "
       "to check how the launcher was started."},
      {"RANK, WORLD_SIZE",
       worker,
       "Rank of the worker and number of workers in the job; not set for a "
       "single process."},
      {"LOCAL_RANK, LOCAL_WORLD_SIZE",
       worker,
       "Rank of the worker and number of workers on its machine; not set "
       "for a single process."},
      {"GROUP_RANK, GROUP_WORLD_SIZE",
       worker,
       "Rank of the machine and number of machines; not set for a single "
       "process."},
      {"ROLE_NAME, ROLE_RANK, ROLE_WORLD_SIZE",
       worker,
       "The same as under torchrun; not set for a single process."},
      {"MASTER_ADDR, MASTER_PORT",
       worker,
       "Address and port where rank 0 of the program may open a store; not "
       "set for a single process."},
      {"TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_MAX_RESTARTS, "
       "TORCHELASTIC_RUN_ID",
       worker,
       "Number of restarts so far, maximum number of restarts, and the ID of "
       "the "
       "job."},
      {"TORCHELASTIC_ERROR_FILE",
       worker,
       "File where a worker may write its exception as JSON, as torchrun's "
       "`record` does."},
      {"ACCELERATE_PROGRESS_FILE",
       worker,
       "Eight-byte file where the library stores the current step; the "
       "launcher shows the step in failure reports and after Ctrl-\\."},
      {"ACCELERATE_GRACE_PERIOD",
       worker,
       "The launcher's `--grace_period` in seconds; a worker that saves on "
       "SIGTERM ignores further SIGTERMs for this long."},
      {"TORCHELASTIC_USE_AGENT_STORE",
       worker,
       "Always False: rank 0 of the program opens its own store."},
      {"ACCELERATE_DYNAMO_BACKEND, ACCELERATE_DYNAMO_MODE, "
       "ACCELERATE_DYNAMO_USE_FULLGRAPH, ACCELERATE_DYNAMO_USE_DYNAMIC, "
       "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION",
       worker,
       "Set to values that turn torch.compile off, for scripts written for "
       "Hugging Face Accelerate."},
      {"ACCELERATE_STORE",
       worker,
       "Address of the launcher's store: `unix:PATH` or `tcp:ADDRESS:PORT`."},
      {"ACCELERATE_STORE_SECRET",
       worker,
       "Secret that authenticates a worker to the launcher's store."},
      {"ACCELERATE_STORE_RANK",
       worker,
       "Rank under which the worker connects to the launcher's store; also "
       "set for a single process."},
      {"ACCELERATE_STORE_RUN",
       worker,
       "ID of the run that owns the launcher's store; equals "
       "TORCHELASTIC_RUN_ID in the workers of that run."},
      {"ACCELERATE_LAUNCH_ID",
       worker,
       "ID of this launch, inherited by every process that the workers "
       "start."},
      {"ACCELERATE_RESTART_COUNT",
       worker,
       "Number of restarts so far; also set for a single process."},
      {"NCCL_P2P_DISABLE, NCCL_IB_DISABLE",
       worker,
       "Set to 1 when several processes run on RTX 40-series GPUs with a "
       "driver older than 550.40.07, with which P2P access does not work. An "
       "existing value is kept."},
      {"NCCL_HOSTID",
       worker,
       "With `--ranks_per_gpu`, each process that shares a GPU gets a "
       "different value, so that NCCL treats these processes as running on "
       "different machines."},
      {"GLOO_SOCKET_IFNAME",
       worker,
       "Network interface for Gloo: `lo` if the job runs on a single machine, "
       "else the interface that reaches machine 0. Not set for a single "
       "process or a Python program; an existing value is kept."},
      {"NCCL_SOCKET_IFNAME",
       worker,
       "Network interface for NCCL: `lo` if the job runs on a single machine. "
       "Not set for multi-machine jobs, a single process or a Python program; "
       "an existing value is kept."},
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
           str_cat("Same as `--", setting.flag, "`. ", setting.help)});
    }
  }
  const auto& others = other_variables();
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace accelerate

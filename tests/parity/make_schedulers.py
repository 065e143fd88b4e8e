#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/schedulers.json: learning rates of the schedules in Hugging Face
Transformers.

    tests/parity/make_schedulers.py      (Transformers 5.22.2, torch 2.11.0)

Each case contains a schedule, its options, and the learning rates of two
parameter groups before each of `steps` steps. A case of the schedule "greedy"
also contains the metric of each step.
"""

import json
from pathlib import Path

import torch
from transformers.optimization import get_scheduler

GOLDEN = Path(__file__).parent / "golden"
RATES = (0.1, 0.02)

CASES = [
    ("linear", 0, 12, {}),
    ("linear", 3, 12, {}),
    ("cosine", 3, 12, {}),
    ("cosine", 2, 12, {"num_cycles": 1.5}),
    ("cosine_with_restarts", 3, 12, {}),
    ("cosine_with_restarts", 2, 12, {"num_cycles": 3}),
    ("polynomial", 3, 12, {}),
    ("polynomial", 3, 12, {"power": 2.0, "lr_end": 0.001}),
    ("constant", 0, 12, {}),
    ("constant_with_warmup", 4, 12, {}),
    ("inverse_sqrt", 0, 12, {}),
    ("inverse_sqrt", 4, 12, {}),
    ("inverse_sqrt", 2, 12, {"timescale": 5}),
    ("cosine_with_min_lr", 3, 12, {"min_lr": 0.01}),
    ("cosine_with_min_lr", 3, 12, {"min_lr_rate": 0.3, "num_cycles": 1.0}),
    ("cosine_warmup_with_min_lr", 3, 12, {"min_lr": 0.01}),
    ("cosine_warmup_with_min_lr", 3, 12,
     {"min_lr_rate": 0.2, "warmup_lr_rate": 0.1}),
    ("warmup_stable_decay", 3, 12, {"num_decay_steps": 4}),
    ("warmup_stable_decay", 3, None,
     {"num_decay_steps": 4, "num_stable_steps": 2, "warmup_type": "cosine",
      "decay_type": "linear", "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 4, 12,
     {"num_decay_steps": 5, "warmup_type": "1-sqrt", "decay_type": "1-sqrt"}),
    ("warmup_stable_decay", 2, 12, {"num_decay_steps": 6, "num_cycles": 1.5}),
]

# The metric falls, stays constant, rises, and falls again.
METRICS = ([8.0, 7.0, 6.0, 5.0, 4.0] + [4.0] * 8 + [5.0, 6.0] * 3 +
           [3.0, 2.0, 1.0, 0.5, 0.25, 0.2, 0.1])
GREEDY = [
    {"patience": 2},
    {"patience": 1, "factor": 0.5, "max_lr": 0.15, "min_lr": 0.01},
    {"patience": 1, "factor": 0.5, "min_lr": [0.02, 0.001], "max_lr": [1, 0.03]},
    {"patience": 0, "mode": "max", "cooldown": 2, "warmup": 3},
    {"patience": 1, "threshold": 0.2, "threshold_mode": "rel", "smooth": True,
     "window_size": 3},
    {"patience": 0, "factor": 0.25, "min_lr": 0.01, "reset_start": 2, "eps": 0.001},
    {"patience": 0, "factor": 0.25, "mode": "max", "threshold_mode": "rel",
     "threshold": 0.1, "min_lr": 0.01, "reset_start": 1, "smooth": True,
     "window_size": 2},
]


def rates(name, warmup, total, options, steps=15):
    groups = [{"params": [torch.zeros(1)], "lr": rate} for rate in RATES]
    optimizer = torch.optim.SGD(groups, lr=RATES[0])
    scheduler = get_scheduler(name, optimizer, num_warmup_steps=warmup,
                              num_training_steps=total,
                              scheduler_specific_kwargs=options)
    learning_rates = []
    for _ in range(steps):
        learning_rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return learning_rates


def greedy_rates(options):
    groups = [{"params": [torch.zeros(1)], "lr": rate} for rate in RATES]
    optimizer = torch.optim.SGD(groups, lr=RATES[0])
    scheduler = get_scheduler("greedy", optimizer,
                              scheduler_specific_kwargs=options)
    learning_rates = []
    for metric in METRICS:
        learning_rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step(metric)
    return learning_rates


def main():
    cases = []
    for name, warmup, total, options in CASES:
        all_options = {"num_warmup_steps": warmup, **options}
        if total is not None:
            all_options["num_training_steps"] = total
        cases.append({"name": name, "options": all_options,
                      "lr": rates(name, warmup, total, options)})
    for options in GREEDY:
        cases.append({"name": "greedy", "options": options, "metrics": METRICS,
                      "lr": greedy_rates(options)})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (GOLDEN / "schedulers.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()

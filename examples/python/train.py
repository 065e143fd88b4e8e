# SPDX-License-Identifier: Apache-2.0
"""The tutorial's script: trains a sentence-pair classifier.

    accelerate launch --cpu --num_processes 2 examples/python/train.py

plain_train.py contains the same loop for one process. pairs.py contains the
data and the model.
"""

import torch
from accelerate_cpp import set_seed, tqdm
from pairs import PairClassifier, make_dataloaders
from torch.optim import AdamW
from torch.optim.lr_scheduler import LinearLR

set_seed(42)
train_dataloader, eval_dataloader = make_dataloaders(batch_size=12)

# region: loop
# region: setup
from accelerate_cpp import Accelerator

accelerator = Accelerator()
# endregion

model = PairClassifier()
optimizer = AdamW(model.parameters(), lr=5e-4)

# region: prepare
train_dataloader, eval_dataloader, model, optimizer = accelerator.prepare(
    train_dataloader, eval_dataloader, model, optimizer
)
# endregion

num_epochs = 3
num_training_steps = num_epochs * len(train_dataloader)
lr_scheduler = LinearLR(
    optimizer, start_factor=1.0, end_factor=0.0, total_iters=num_training_steps
)
progress_bar = tqdm(range(num_training_steps))

model.train()
# region: backward
for epoch in range(num_epochs):
    for batch in train_dataloader:
        outputs = model(**batch)
        loss = outputs.loss
        accelerator.backward(loss)

        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
        progress_bar.update(1)
# endregion
# endregion
progress_bar.close()

model.eval()
correct = seen = 0
for batch in eval_dataloader:
    with torch.no_grad():
        predictions = model(**batch).logits.argmax(-1)
    predictions, labels = accelerator.gather_for_metrics((predictions, batch["labels"]))
    correct += (predictions == labels).sum().item()
    seen += len(labels)
accelerator.print(f"accuracy {correct / seen:.3f} on {seen} pairs")
accelerator.end_training()

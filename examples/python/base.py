# SPDX-License-Identifier: Apache-2.0
# The training loop in docs/guides/python.md. Run it with:
#
#     accelerate launch --cpu --num_processes 2 examples/python/base.py
#
# The model and the data are small and defined here, so nothing has to be
# downloaded. The loop is the same with a model from Hugging Face Transformers.
import types

import torch
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset

from accelerate_cpp import Accelerator, tqdm  # changed


class Pairs(Dataset):
    """Pairs of numbers. The label is 1 if the first number is larger."""

    def __init__(self, size: int):
        self.values = torch.randn(size, 2, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        pair = self.values[index]
        return {"values": pair, "labels": (pair[0] > pair[1]).long()}


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

    def forward(self, values, labels):
        logits = self.layers(values)
        return types.SimpleNamespace(loss=torch.nn.functional.cross_entropy(logits, labels), logits=logits)


torch.manual_seed(0)
train_dataloader = DataLoader(Pairs(400), batch_size=8, shuffle=True)
eval_dataloader = DataLoader(Pairs(101), batch_size=8)

# region: loop
accelerator = Accelerator()

model = Classifier()
optimizer = AdamW(model.parameters(), lr=1e-2)

train_dataloader, eval_dataloader, model, optimizer = accelerator.prepare(
    train_dataloader, eval_dataloader, model, optimizer
)

num_epochs = 3
num_training_steps = num_epochs * len(train_dataloader)
lr_scheduler = torch.optim.lr_scheduler.LinearLR(
    optimizer, start_factor=1.0, end_factor=0.0, total_iters=num_training_steps
)
progress_bar = tqdm(range(num_training_steps))

model.train()
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
progress_bar.close()

model.eval()
correct = seen = 0
for batch in eval_dataloader:
    with torch.no_grad():
        predictions = model(**batch).logits.argmax(-1)
    predictions, labels = accelerator.gather_for_metrics((predictions, batch["labels"]))
    correct += (predictions == labels).sum().item()
    seen += len(labels)
accelerator.print(f"accuracy {correct / seen:.3f} on {seen} samples")
accelerator.end_training()

# SPDX-License-Identifier: Apache-2.0
"""The tutorial's script before the changes: the loop of train.py for one process.

    python3 examples/python/plain_train.py
"""

import torch
from accelerate_cpp import set_seed, tqdm
from pairs import PairClassifier, make_dataloaders
from torch.optim import AdamW
from torch.optim.lr_scheduler import LinearLR

set_seed(42)
train_dataloader, eval_dataloader = make_dataloaders(batch_size=12)

# region: loop
model = PairClassifier()
optimizer = AdamW(model.parameters(), lr=5e-4)

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model.to(device)

num_epochs = 3
num_training_steps = num_epochs * len(train_dataloader)
lr_scheduler = LinearLR(
    optimizer, start_factor=1.0, end_factor=0.0, total_iters=num_training_steps
)
progress_bar = tqdm(range(num_training_steps))

model.train()
for epoch in range(num_epochs):
    for batch in train_dataloader:
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        outputs = model(**batch)
        loss = outputs.loss
        loss.backward()

        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
        progress_bar.update(1)
# endregion
progress_bar.close()

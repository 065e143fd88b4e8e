# SPDX-License-Identifier: Apache-2.0
"""The last step of the tutorial as a script: training from a notebook.

    python3 examples/python/notebook_train.py

The cells of notebooks/tutorial_python.ipynb contain these lines.
"""

# region: imports
import torch
from accelerate_cpp import Accelerator, notebook_launcher, set_seed, tqdm
from pairs import PairClassifier, make_dataloaders
from torch.optim import AdamW
from torch.optim.lr_scheduler import LinearLR
# endregion


# region: evaluate
def evaluate(accelerator, model, dataloader):
    """The fraction of pairs that the model classifies correctly, over all processes."""
    model.eval()
    correct = seen = 0
    for batch in dataloader:
        with torch.no_grad():
            predictions = model(**batch).logits.argmax(-1)
        predictions, labels = accelerator.gather_for_metrics((predictions, batch["labels"]))
        correct += (predictions == labels).sum().item()
        seen += len(labels)
    return correct / seen
# endregion


# region: function
def training_function(num_epochs):
    accelerator = Accelerator()
    set_seed(42)
    train_dataloader, eval_dataloader = make_dataloaders(batch_size=12)
    model = PairClassifier()
    optimizer = AdamW(model.parameters(), lr=5e-4)
    train_dataloader, eval_dataloader, model, optimizer = accelerator.prepare(
        train_dataloader, eval_dataloader, model, optimizer
    )

    num_training_steps = num_epochs * len(train_dataloader)
    lr_scheduler = LinearLR(
        optimizer, start_factor=1.0, end_factor=0.0, total_iters=num_training_steps
    )
    progress_bar = tqdm(range(num_training_steps))

    model.train()
    for epoch in range(num_epochs):
        for batch in train_dataloader:
            outputs = model(**batch)
            accelerator.backward(outputs.loss)

            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
            progress_bar.update(1)
    return evaluate(accelerator, model, eval_dataloader)
# endregion


# region: launch
num_processes = torch.cuda.device_count() or 2  # one per GPU, or two on the CPU
accuracy = notebook_launcher(training_function, (3,), num_processes)
print(f"accuracy {accuracy:.3f}")
# endregion

"""The language model of words.py as a script for the Trainer of Hugging Face. It runs and it learns.

As it came, four things in it are wrong.

    python own/with_trainer.py
    dlojz audit own/with_trainer.py

It needs the packages transformers and accelerate.
"""

import argparse
import importlib
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, random_split
from words import Model, Text

from dlojz import callbacks

try:
    from transformers import Trainer, TrainingArguments

    importlib.import_module("accelerate")  # the Trainer asks for it later
except Exception as failure:  # transformers raises others than ImportError where a package that it needs is missing
    while failure.__cause__:
        failure = failure.__cause__
    why = f"cannot import the Trainer of transformers ({type(failure).__name__}: {failure})"
    if isinstance(failure, ModuleNotFoundError) and failure.name in ("transformers", "accelerate"):
        why = f"needs {failure.name}, which is not installed here"
    print(f"own/with_trainer.py {why}. Take own/images.py or own/words.py, or pip install transformers accelerate")
    sys.exit(1)


def batch(rows):
    text = torch.stack(rows)
    return {"text": text[:, :-1], "labels": text[:, 1:].contiguous()}


# >>> own.trainer: what this Trainer does in its own way
LOSSES = []


class Mine(Trainer):
    """Shuffles by a sampler for several processes, takes steps by itself, and keeps the loss of each update."""

    def get_train_dataloader(self):
        sampler = DistributedSampler(self.train_dataset, num_replicas=1, rank=0)
        loader = DataLoader(self.train_dataset, self.args.train_batch_size, sampler=sampler, collate_fn=batch, drop_last=True)
        return self.accelerator.prepare(loader)

    def compute_loss(self, model, inputs, **unused):
        outputs = model(inputs["text"])
        return nn.functional.cross_entropy(outputs.flatten(0, 1).float(), inputs["labels"].flatten())

    def training_step(self, model, inputs, *unused):
        model.train()
        inputs = self._prepare_inputs(inputs)
        with torch.autocast(self.args.device.type, dtype=torch.bfloat16):
            loss = self.compute_loss(model, inputs)
        loss.backward()
        LOSSES.append(loss.detach())
        return loss.detach()

    @torch.no_grad()
    def prediction_step(self, model, inputs, *unused, **more):
        return self.compute_loss(model, self._prepare_inputs(inputs)).detach(), None, None
# <<< own.trainer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    asked = TrainingArguments("trainer", num_train_epochs=args.epochs, per_device_train_batch_size=16, learning_rate=2e-3,
                              logging_steps=5, eval_strategy="steps", eval_steps=5, save_strategy="no", report_to=[],
                              disable_tqdm=True, remove_unused_columns=False, label_names=["labels"], seed=1)
    torch.manual_seed(1)
    train_set, val_set = random_split(Text(), [0.9, 0.1], torch.Generator().manual_seed(2))
    Mine(Model(dropout=0.1), asked, data_collator=batch, train_dataset=train_set, eval_dataset=val_set,
         callbacks=[callbacks.for_trainer(unit="rows", args={"amp": "bf16"})]).train()


if __name__ == "__main__":
    main()

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Words(torch.utils.data.Dataset):
    def __init__(self):
        self.ids = torch.randint(0, 50, (64, 16))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, n):
        return {"input_ids": self.ids[n], "labels": self.ids[n]}


torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2))
args = TrainingArguments("out", per_device_train_batch_size=4, num_train_epochs=3, eval_strategy="epoch", logging_steps=1,
                         report_to=[], use_cpu=True, max_grad_norm=1.0, weight_decay=0.1, bf16=True, save_strategy="no")
Trainer(model, args, train_dataset=Words(), eval_dataset=Words()).train()

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Dropout(0.1), nn.Linear(20, 3))

    def training_step(self, batch, n):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, n):
        self.log("val", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


data = TensorDataset(torch.randn(128, 10), torch.randint(0, 3, (128,)))
trainer = L.Trainer(max_epochs=4, accelerator="cpu", precision="bf16-mixed", gradient_clip_val=1.0, devices=1)
trainer.fit(Lit(), DataLoader(data, 4, shuffle=True), DataLoader(data, 8))

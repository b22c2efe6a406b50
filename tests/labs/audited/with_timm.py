import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, NativeScaler
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(0, 5, (64,)))
train, val = DataLoader(data, 4, shuffle=True, drop_last=True), DataLoader(data, 8)
model = timm.create_model("test_resnet", num_classes=5).to(memory_format=torch.channels_last)
ema = ModelEmaV3(model)
optimizer = create_optimizer_v2(model, opt="lamb", lr=1e-3, weight_decay=0.05)
scheduler = CosineLRScheduler(optimizer, t_initial=30)
mixup, scaler = Mixup(0.2, num_classes=5), NativeScaler()
count = 0
for epoch in range(4):
    model.train()
    for x, y in train:
        x, y = mixup(x, y)
        x = x.to(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            loss = SoftTargetCrossEntropy()(model(x), y)
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        ema.update(model)
        count += 1
        scheduler.step_update(count)
    model.eval()
    with torch.inference_mode():
        for x, _ in val:
            model(x), ema.module(x)
    scheduler.step(epoch + 1)

# >>> own.images
# TODO: `dlojz audit` says what is wrong in here. Mend it; what the script trains, and on what, stays.
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    model.train()
    for epoch in range(epochs):
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            scheduler.step()
            optimizer.step()
            losses.append(loss)
            run.step(loss, items=len(labels), epoch=epoch, lr=scheduler.get_last_lr()[0])
        validate(model, val_loader, run, epoch, device)
    return torch.stack(losses).mean().item()


@torch.no_grad()
def validate(model, loader, run, epoch, device):
    model.eval()
    loss = right = count = 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        outputs = model(images)
        loss += nn.functional.cross_entropy(outputs, labels, reduction="sum").item()
        right += (outputs.argmax(1) == labels).sum().item()
        count += len(labels)
    run.validated(loss=loss / count, accuracy=right / count, images=count, epoch=epoch)
# <<< own.images

# >>> own.words
# TODO: `dlojz audit` says what is wrong in here. Mend it; what the script trains, and on what, stays.
def train(model, loader, optimizer, scaler, run, epochs, device):
    for epoch in range(epochs):
        for text in run.steps(loader):
            text = text.to(device)
            with torch.autocast(device.type, dtype=torch.float16):
                outputs = model(text[:, :-1])
                loss = nn.functional.cross_entropy(outputs.flatten(0, 1).float(), text[:, 1:].flatten())
                scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            run.step(loss, epoch=epoch)
# <<< own.words

# >>> own.trainer
# TODO: `dlojz audit` says what is wrong in here. Mend it; what the script trains, and on what, stays.
LOSSES = []


class Mine(Trainer):
    """Shuffles by a sampler for several processes, takes steps by itself, and keeps the loss of each update."""

    def get_train_dataloader(self):
        sampler = DistributedSampler(self.train_dataset, num_replicas=1, rank=0)
        loader = DataLoader(self.train_dataset, self.args.train_batch_size, sampler=sampler, collate_fn=batch, drop_last=True)
        return loader

    def compute_loss(self, model, inputs, **unused):
        outputs = model(inputs["text"])
        return nn.functional.cross_entropy(outputs.flatten(0, 1).float(), inputs["labels"].flatten())

    def training_step(self, model, inputs, *unused):
        model.train()
        inputs = self._prepare_inputs(inputs)
        with torch.autocast(self.args.device.type, dtype=torch.bfloat16):
            loss = self.compute_loss(model, inputs)
            loss.backward()
        LOSSES.append(loss)
        return loss.detach()

    def prediction_step(self, model, inputs, *unused, **more):
        return self.compute_loss(model, self._prepare_inputs(inputs)).detach(), None, None
# <<< own.trainer

# right: train mode in each step, numbers in place of losses, cleared after the update
# >>> own.images
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    for epoch in range(epochs):
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            model.train()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            losses.append(loss.item())
            run.step(loss, items=len(labels), epoch=epoch, lr=scheduler.get_last_lr()[0])
        validate(model, val_loader, run, epoch, device)
    return sum(losses) / len(losses)


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

# right: cleared by the model after the update, the loss outside of autocast, epochs counted from 1
# >>> own.words
def train(model, loader, optimizer, scaler, run, epochs, device):
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch + 1)
        for text in run.steps(loader):
            text = text.to(device)
            with torch.autocast(device.type, dtype=torch.float16):
                outputs = model(text[:, :-1])
            loss = nn.functional.cross_entropy(outputs.flatten(0, 1).float(), text[:, 1:].flatten())
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            model.zero_grad()
            run.step(loss, epoch=epoch)
# <<< own.words

# wrong: images losses kept · expect: `losses kept without their graphs` is 'used wrongly'.*line \d+ of own/images.py
# >>> own.images
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    for epoch in range(epochs):
        model.train()
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
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

# wrong: images trained in eval mode · expect: `train mode in training` is 'used wrongly'.*line \d+ of own/images.py
# >>> own.images
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    model.train()
    for epoch in range(epochs):
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.detach())
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

# wrong: words clipped while scaled · expect: `clipping after unscaling` is 'used wrongly'.*line \d+ of own/words.py
# >>> own.words
def train(model, loader, optimizer, scaler, run, epochs, device):
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for text in run.steps(loader):
            text = text.to(device)
            with torch.autocast(device.type, dtype=torch.float16):
                outputs = model(text[:, :-1])
                loss = nn.functional.cross_entropy(outputs.flatten(0, 1).float(), text[:, 1:].flatten())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            run.step(loss, epoch=epoch)
# <<< own.words

# wrong: words the same order · expect: `another order in each epoch` is 'used wrongly'.*line \d+ of own/words.py
# >>> own.words
def train(model, loader, optimizer, scaler, run, epochs, device):
    for epoch in range(epochs):
        for text in run.steps(loader):
            text = text.to(device)
            with torch.autocast(device.type, dtype=torch.float16):
                outputs = model(text[:, :-1])
                loss = nn.functional.cross_entropy(outputs.flatten(0, 1).float(), text[:, 1:].flatten())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            run.step(loss, epoch=epoch)
# <<< own.words

# wrong: images never cleared · expect: `gradients cleared once per update` is 'used wrongly'.*line \d+ of own/images.py
# >>> own.images
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    for epoch in range(epochs):
        model.train()
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.detach())
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

# wrong: images without a schedule · expect: `schedule after the update` is 'could not be seen'.*the script still does it
# >>> own.images
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    for epoch in range(epochs):
        model.train()
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
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

# wrong: images a schedule of epochs · expect: update 2 has a learning rate of .*the schedule is stepped once after each update
# >>> own.images
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    for epoch in range(epochs):
        model.train()
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            run.step(loss, items=len(labels), epoch=epoch, lr=scheduler.get_last_lr()[0])
        scheduler.step()
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

# wrong: images half a batch · expect: the first step is given other data.*the fence own.images
# >>> own.images
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    for epoch in range(epochs):
        model.train()
        for images, labels in run.steps(loader):
            images, labels = images[::2].to(device), labels[::2].to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.detach())
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

# wrong: words without mixed precision · expect: `clipping after unscaling` is|`backward pass outside of autocast` is 'not applicable'.*the script still does it
# >>> own.words
def train(model, loader, optimizer, scaler, run, epochs, device):
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for text in run.steps(loader):
            text = text.to(device)
            outputs = model(text[:, :-1])
            loss = nn.functional.cross_entropy(outputs.flatten(0, 1).float(), text[:, 1:].flatten())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            run.step(loss, epoch=epoch)
# <<< own.words

# wrong: images schedule early · expect: `schedule after the update` is 'used wrongly'.*line \d+ of own/images.py
# >>> own.images
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    for epoch in range(epochs):
        model.train()
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            scheduler.step()
            optimizer.step()
            losses.append(loss.detach())
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

# wrong: images never validated · expect: `train mode in training` is 'could not be seen'.*the script still does it
# >>> own.images
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    for epoch in range(epochs):
        model.train()
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.detach())
            run.step(loss, items=len(labels), epoch=epoch, lr=scheduler.get_last_lr()[0])
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

# wrong: words backward inside autocast · expect: `backward pass outside of autocast` is 'used wrongly'
# >>> own.words
def train(model, loader, optimizer, scaler, run, epochs, device):
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for text in run.steps(loader):
            text = text.to(device)
            with torch.autocast(device.type, dtype=torch.float16):
                outputs = model(text[:, :-1])
                loss = nn.functional.cross_entropy(outputs.flatten(0, 1).float(), text[:, 1:].flatten())
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.float16):
                scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            run.step(loss, epoch=epoch)
# <<< own.words

# wrong: words without clipping · expect: `clipping after unscaling` is 'not applicable'
# >>> own.words
def train(model, loader, optimizer, scaler, run, epochs, device):
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for text in run.steps(loader):
            text = text.to(device)
            with torch.autocast(device.type, dtype=torch.float16):
                outputs = model(text[:, :-1])
                loss = nn.functional.cross_entropy(outputs.flatten(0, 1).float(), text[:, 1:].flatten())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            run.step(loss, epoch=epoch)
# <<< own.words

# wrong: words never cleared · expect: `gradients cleared once per update` is 'used wrongly'
# >>> own.words
def train(model, loader, optimizer, scaler, run, epochs, device):
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for text in run.steps(loader):
            text = text.to(device)
            with torch.autocast(device.type, dtype=torch.float16):
                outputs = model(text[:, :-1])
                loss = nn.functional.cross_entropy(outputs.flatten(0, 1).float(), text[:, 1:].flatten())
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            run.step(loss, epoch=epoch)
# <<< own.words

# wrong: misspelt · expect: AttributeError(.|\n)*own.images
# >>> own.images
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    for epoch in range(epochs):
        model.trian()
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.detach())
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

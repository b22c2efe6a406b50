# >>> ddp_hunt.accuracy
accuracy = right(mine) / (last - first)
weight = torch.tensor((last - first) / 10, device=device)
accuracy *= weight
dist.all_reduce(accuracy)
accuracy = accuracy.item()
# <<< ddp_hunt.accuracy
# >>> ddp_hunt.checkpoint
if place.is_main:
    torch.save({name.removeprefix("module."): tensor for name, tensor in model.state_dict().items()}, file)
# <<< ddp_hunt.checkpoint
# >>> ddp_hunt.saving
written = torch.zeros(1, device=device)
if place.is_main:
    torch.save({"epoch": epoch, "model": net.state_dict()}, file)
    written += 1
dist.broadcast(written, 0)
# <<< ddp_hunt.saving

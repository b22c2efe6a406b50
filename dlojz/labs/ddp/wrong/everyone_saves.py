# expect: rank 1 saves a file, too(.|\n)*torch.save
# >>> ddp.epoch
if procs.world_size > 1:
    sampler.set_epoch(epoch)
    torch.save(net.state_dict(), run / f"epoch{epoch}.pt")
# <<< ddp.epoch

# expect: rank 1 prints `epoch 0`(.|\n)*print
# >>> ddp.epoch
if procs.world_size > 1:
    sampler.set_epoch(epoch)
    print(f"epoch {epoch}")
# <<< ddp.epoch

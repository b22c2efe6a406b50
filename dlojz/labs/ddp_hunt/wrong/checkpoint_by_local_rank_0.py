# expect: ddp_3.py: rank 1 saves 1 times(.|\n)*
# >>> ddp_hunt.checkpoint
if place.local_rank == 0:
    torch.save(model.module.state_dict(), file)
# <<< ddp_hunt.checkpoint

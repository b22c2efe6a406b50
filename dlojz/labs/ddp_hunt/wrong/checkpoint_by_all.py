# expect: ddp_3.py: rank 1 saves 1 times
# >>> ddp_hunt.checkpoint
torch.save(model.module.state_dict(), file)
# <<< ddp_hunt.checkpoint

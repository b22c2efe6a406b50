# expect: ddp_4.py: rank 1 has read what was saved in epoch 0(.|\n)*ddp_hunt.saving
# >>> ddp_hunt.saving
if place.is_main:
    torch.save({"epoch": epoch, "model": net.state_dict()}, file)
# <<< ddp_hunt.saving

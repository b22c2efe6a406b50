# expect: ddp_3.py: the loss of the trained model is .*, of what was loaded(.|\n)*ddp_hunt.checkpoint
# >>> ddp_hunt.checkpoint
if dist.get_rank() == 0:
    torch.save(dict(model.state_dict()), file)
# <<< ddp_hunt.checkpoint

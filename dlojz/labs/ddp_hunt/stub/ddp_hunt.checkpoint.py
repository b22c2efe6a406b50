# TODO: something is wrong from here on. Find it by what the script does, and mend it.
if place.is_main:
    torch.save(model.state_dict(), file)

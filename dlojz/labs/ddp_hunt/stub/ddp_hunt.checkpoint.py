# Something is wrong from here on. Find it by what the script does.
if place.is_main:
    torch.save(model.state_dict(), file)

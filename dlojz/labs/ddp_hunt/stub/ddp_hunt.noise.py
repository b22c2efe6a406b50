# TODO: something is wrong from here on. Find it by what the script does, and mend it.
generator = torch.Generator().manual_seed(SEED)

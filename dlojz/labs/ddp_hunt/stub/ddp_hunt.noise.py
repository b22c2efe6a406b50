# Something is wrong from here on. Find it by what the script does.
generator = torch.Generator().manual_seed(SEED)

# expect: two workers draw the same numbers
# >>> dataloader.seed
np.random.seed(torch.initial_seed() % 2**32)  # what torch has done already; the set draws from a generator of its own
# <<< dataloader.seed

# expect: two workers draw the same numbers
# >>> dataloader.seed
get_worker_info().dataset.rng = np.random.default_rng(1)
# <<< dataloader.seed

# expect: begun anew with the same seed
# >>> dataloader.seed
get_worker_info().dataset.rng = np.random.default_rng()
# <<< dataloader.seed

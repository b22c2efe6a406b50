# expect: the same numbers in the first epoch and in the second
# >>> dataloader.seed
get_worker_info().dataset.rng = np.random.default_rng(worker)
# <<< dataloader.seed

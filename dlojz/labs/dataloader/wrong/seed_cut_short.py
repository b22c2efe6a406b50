# expect: 3000 seeds of a worker give only \d{3} different first numbers(.|\n)*the whole of it(.|\n)*dataloader.seed
# >>> dataloader.seed
info = get_worker_info()
info.dataset.rng = np.random.default_rng(info.seed % 1000)
# <<< dataloader.seed

# expect: stops with AttributeError in a DataLoader worker: .*in line \d+ of loading.py.*the fence dataloader.seed
# >>> dataloader.seed
torch.utils.data.get_worker_info().dataset.generator.seed()
# <<< dataloader.seed

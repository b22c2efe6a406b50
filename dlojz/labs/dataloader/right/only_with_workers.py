# >>> dataloader
loading = dict(num_workers=args.num_workers, pin_memory=args.pin_memory and device.type == "cuda")
if args.num_workers:
    loading.update(persistent_workers=args.persistent_workers, prefetch_factor=args.prefetch_factor or 2)
# <<< dataloader
# >>> dataloader.seed
import random

get_worker_info().dataset.rng = np.random.default_rng([worker, random.getrandbits(32)])  # torch has seeded it for this worker
# <<< dataloader.seed

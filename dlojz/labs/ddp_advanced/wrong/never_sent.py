# expect: two processes have different weights.*the fence ddp_advanced.no_sync
# >>> ddp_advanced.no_sync
return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()
# <<< ddp_advanced.no_sync

# expect: sent in the backward passes of the batches 1, 2 and 3|different weights
# >>> ddp_advanced.no_sync
return nullcontext() if more_to_come or not isinstance(model, DistributedDataParallel) else model.no_sync()
# <<< ddp_advanced.no_sync

# >>> gpu.device
import os
number = int(os.environ.get("LOCAL_RANK", procs.local_rank)) % max(1, torch.cuda.device_count())
device = torch.device(f"cuda:{number}" if args.device == "cuda" else "cpu")
# <<< gpu.device

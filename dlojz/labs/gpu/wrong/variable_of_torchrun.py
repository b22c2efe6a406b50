# expect: eleventh process.*sets no LOCAL_RANK.*weights are on cuda:0 .*cuda:1.*gpu.device
# >>> gpu.device
import os
number = int(os.environ.get("LOCAL_RANK", 0))
device = torch.device("cuda", number % torch.cuda.device_count()) if args.device == "cuda" else torch.device("cpu")
# <<< gpu.device

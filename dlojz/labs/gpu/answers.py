# right: accelerator
# >>> gpu.device
device = torch.device("cpu")
if args.device == "cuda":
    torch.cuda.set_device(procs.local_rank % torch.cuda.device_count())
    device = torch.device(torch.accelerator.current_accelerator().type, torch.cuda.current_device())
# <<< gpu.device
# >>> gpu.model
with torch.no_grad():
    net = net.to(device, non_blocking=True)
# <<< gpu.model
# >>> gpu.batch
batch = {"images": images, "labels": labels}
batch = {name: tensor.to(next(net.parameters()).device, non_blocking=args.non_blocking) for name, tensor in batch.items()}
images, labels = batch["images"], batch["labels"]
# <<< gpu.batch

# right: copies
# >>> gpu.model
for tensor in [*net.parameters(), *net.buffers()]:
    tensor.data = tensor.data.to(device=device)
# <<< gpu.model
# >>> gpu.batch
images = torch.empty_like(images, device=device).copy_(images, non_blocking=args.non_blocking)
labels = torch.empty_like(labels, device=device).copy_(labels, args.non_blocking)
if step % 1000 == 999:
    print("the largest label is", labels.max().item())
# <<< gpu.batch

# right: cuda methods
# >>> gpu.device
if args.device == "cuda":
    device = torch.device("cuda", procs.local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
else:
    device = torch.device("cpu")
# <<< gpu.device
# >>> gpu.model
if args.device == "cuda":
    net.cuda()
# <<< gpu.model
# >>> gpu.batch
if args.device == "cuda":
    images, labels = images.cuda(non_blocking=args.non_blocking), labels.cuda(non_blocking=args.non_blocking)
# <<< gpu.batch

# right: looks at the batch
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=args.non_blocking)
brightness = images.float().mean()  # other formats, on the GPU: nothing comes back
share = nn.functional.one_hot(labels, classes).half().mean(0)
# <<< gpu.batch

# right: made on the device
# >>> gpu.model
state = net.state_dict()
with torch.device(device):
    net = torchvision.models.get_model(args.model, weights=None, num_classes=classes, **options.for_model(args))
net.load_state_dict(state)
# <<< gpu.model
# >>> gpu.batch
images, labels = images.to(device.type, non_blocking=args.non_blocking), labels.to(device, labels.dtype, args.non_blocking)
# <<< gpu.batch

# right: reports now and then
# >>> gpu.batch
images, labels = images.to(device, non_blocking=args.non_blocking), labels.to(device, non_blocking=args.non_blocking)
if step % 2 == 1:
    print("labels of this batch:", labels.cpu().tolist(), "brightness", images.float().mean().item())
# <<< gpu.batch

# right: strings
# >>> gpu.device
name = f"cuda:{procs.local_rank % torch.cuda.device_count()}" if args.device != "cpu" else "cpu"
device = torch.device(name)
# <<< gpu.device
# >>> gpu.model
net.to(name)
# <<< gpu.model
# >>> gpu.batch
images, labels = (tensor.to(name, non_blocking=args.non_blocking) for tensor in (images, labels))
# <<< gpu.batch

# right: variable of torchrun or not
# >>> gpu.device
import os
number = int(os.environ.get("LOCAL_RANK", procs.local_rank)) % max(1, torch.cuda.device_count())
device = torch.device(f"cuda:{number}" if args.device == "cuda" else "cpu")
# <<< gpu.device

# wrong: always first gpu · expect: eleventh process.*weights are on cuda:0 .*cuda:1.*gpu.device
# >>> gpu.device
device = torch.device(args.device, 0)
# <<< gpu.device

# wrong: images as floats · expect: the images are float32 before they are normalized.*one byte per number.*gpu.batch
# >>> gpu.batch
images = images.float().to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch

# wrong: images stay · expect: model gets images that are on cpu.*gpu.batch
# >>> gpu.batch
labels = labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch

# wrong: labels stay · expect: found at least two devices.*the fence gpu.batch
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch

# wrong: model after the optimizer · expect: weights are on cpu when the optimizer is made.*the fence gpu.model
# >>> gpu.model
# <<< gpu.model
# >>> gpu.batch
if step == 0:
    model.to(device)
images, labels = images.to(device, non_blocking=args.non_blocking), labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch

# wrong: never non blocking · expect: with --non-blocking the CPU waits for the copy of a tensor of shape \[4, 3, 32, 32\].*`images = 
# >>> gpu.batch
images = images.to(device)
labels = labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch

# wrong: no counting round · expect: invalid device ordinal \(there is no GPU 10 here, there are 3\).*the fence gpu.device
# >>> gpu.device
device = torch.device("cuda", procs.local_rank) if args.device == "cuda" else torch.device("cpu")
# <<< gpu.device

# wrong: synchronize each step · expect: every step waits until the GPU has done all its work.*torch.cuda.synchronize
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=args.non_blocking)
if device.type == "cuda":
    torch.cuda.synchronize()
# <<< gpu.batch

# wrong: todo left · expect: `todo\("gpu"\)` is still called.*says that gpu is not written yet.*Where to look: line \d+ .*`todo\("gpu"\)`
# >>> gpu.device
device = torch.device("cuda", procs.local_rank % torch.cuda.device_count()) if args.device == "cuda" else torch.device("cpu")
if args.device == "cuda":
    todo("gpu")
# <<< gpu.device

# wrong: labels by type · expect: the labels are uint8.*the fence gpu.batch
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
labels = labels.to(images, non_blocking=args.non_blocking)
# <<< gpu.batch

# wrong: pinned by hand · expect: --data random.*only dense CPU tensors can be pinned.*the fence gpu.batch
# >>> gpu.batch
if device.type == "cuda":
    images, labels = images.pin_memory(), labels.pin_memory()
images = images.to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch

# wrong: channels last too · expect: the model gets images in NHWC.*their order in memory stays.*the fence gpu.batch
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking, memory_format=torch.channels_last)
labels = labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch

# wrong: default device · expect: `train.py --device cuda`, .*torch's setting `default device` is cuda.*the fence gpu.device
# >>> gpu.device
if args.device == "cuda":
    device = torch.device("cuda", procs.local_rank % torch.cuda.device_count())
else:
    device = torch.device("cpu")
torch.set_default_device(device)
# <<< gpu.device

# wrong: seeded once more · expect: random numbers begin again, from the seed 0.*from 1 alone.*the fence gpu.model
# >>> gpu.model
net = net.to(device)
torch.manual_seed(0)
# <<< gpu.model

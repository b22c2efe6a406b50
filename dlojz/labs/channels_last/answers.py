# right: by format
# >>> channels_last.model
memory_format = torch.channels_last if args.channels_last else torch.preserve_format
net.to(memory_format=memory_format) if args.channels_last else net
# <<< channels_last.model
# >>> channels_last.batch
images = images.to(memory_format=memory_format)
# <<< channels_last.batch

# right: by parameter
# >>> channels_last.model
if args.channels_last:
    for parameter in net.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
# <<< channels_last.model
# >>> channels_last.batch
if args.channels_last:
    images = images.contiguous(memory_format=torch.channels_last)
# <<< channels_last.batch

# right: copied
# >>> channels_last.model
if args.channels_last:
    net = nn.utils.convert_conv2d_weight_memory_format(net, torch.channels_last)
# <<< channels_last.model
# >>> channels_last.batch
if args.channels_last:
    there = torch.empty_like(images, memory_format=torch.channels_last)
    images = there.copy_(images)
# <<< channels_last.batch

# right: permuted back
# >>> channels_last.model
if args.channels_last:
    net = net.to(memory_format=torch.channels_last)
# <<< channels_last.model
# >>> channels_last.batch
if args.channels_last:  # lies as NHWC, is shown as NCHW
    images = images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
# <<< channels_last.batch

# wrong: after the wrap · expect: you wrap a model whose weights are in NCHW
# >>> channels_last.model
# <<< channels_last.model
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
if args.channels_last:
    model = model.to(memory_format=torch.channels_last)
# <<< ddp.wrap

# wrong: always on · expect: train.py --device cpu`, .*weights.* are in NHWC.*channels_last.model
# >>> channels_last.model
net = net.to(memory_format=torch.channels_last)
# <<< channels_last.model

# wrong: each step · expect: the whole model is converted in every step.*`net.to\(memory_format
# >>> channels_last.model
# <<< channels_last.model
# >>> channels_last.batch
if args.channels_last:
    net.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
# <<< channels_last.batch

# wrong: first convolution only · expect: 2 of 5 weights with 4 dimensions are in NCHW
# >>> channels_last.model
if args.channels_last:
    next(net.children()).to(memory_format=torch.channels_last)
# <<< channels_last.model

# wrong: images as floats · expect: the images are float32 before they are normalized.*one byte
# >>> channels_last.batch
if args.channels_last:
    images = images.to(torch.float32, memory_format=torch.channels_last)
# <<< channels_last.batch

# wrong: images stay · expect: gets images in NCHW.*channels_last.batch
# >>> channels_last.batch
# <<< channels_last.batch

# wrong: layers convert back · expect: the layer stem.2 \(ReLU\) returns NCHW
# >>> channels_last.model
if args.channels_last:
    net = net.to(memory_format=torch.channels_last)
    for module in net.modules():
        if isinstance(module, (nn.MaxPool2d, nn.ReLU)):
            module.register_forward_hook(lambda module, inputs, output: output.contiguous())
# <<< channels_last.model

# wrong: permuted · expect: images have the shape \[4, 32, 32, 3\].*channels_last.batch
# >>> channels_last.batch
if args.channels_last:
    images = images.permute(0, 2, 3, 1).contiguous()
# <<< channels_last.batch

# wrong: reshaped · expect: step 1: the model gets different images from those that the loader returned.*channels_last.batch
# >>> channels_last.batch
if args.channels_last:
    n, c, h, w = images.shape
    images = images.reshape(n, h, w, c).permute(0, 3, 1, 2)
# <<< channels_last.batch

# wrong: result dropped · expect: gets images in NCHW
# >>> channels_last.batch
if args.channels_last:
    images.to(memory_format=torch.channels_last)
# <<< channels_last.batch

# wrong: todo left · expect: `todo\("channels_last"\)` is still called.*says that channels_last is not written yet.*Where to look: line \d+ .*`todo\("channels_last"\)`
# >>> channels_last.batch
if args.channels_last:
    images = images.to(memory_format=torch.channels_last)
if args.channels_last:
    todo("channels_last")
# <<< channels_last.batch

# wrong: weights stay · expect: 3 of 5 weights with 4 dimensions are in NCHW.*channels_last.model
# >>> channels_last.model
# <<< channels_last.model

# wrong: settings of a layer · expect: layers of the model have other settings.*BatchNorm2d.*the fence channels_last.model
# >>> channels_last.model
if args.channels_last:
    net = net.to(memory_format=torch.channels_last)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
# <<< channels_last.model

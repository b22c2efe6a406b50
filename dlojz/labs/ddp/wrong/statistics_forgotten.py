# expect: all validate with 0.0000 as a running mean that was(.|\n)*ddp.buffers
# >>> ddp.buffers
for module in net.modules():
    if isinstance(module, nn.BatchNorm2d):
        module.reset_running_stats()
# <<< ddp.buffers

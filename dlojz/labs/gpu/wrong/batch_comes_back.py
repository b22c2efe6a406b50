# expect: a step copies a tensor of shape \[4, 3, 32, 32\] from the GPU to the CPU.*images.cpu
# >>> gpu.batch
images, labels = images.to(device), labels.to(device)
images, labels = images.cpu(), labels.cpu()
# <<< gpu.batch

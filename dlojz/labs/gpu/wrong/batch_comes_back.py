# expect: images that the model is given are on cpu.*gpu.batch
# >>> gpu.batch
images, labels = images.to(device), labels.to(device)
images, labels = images.cpu(), labels.cpu()
# <<< gpu.batch

# expect: images that the model is given are on cpu.*gpu.batch
# >>> gpu.batch
images.to(device)
labels.to(device)
# <<< gpu.batch

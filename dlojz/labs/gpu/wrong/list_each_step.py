# expect: every step asks for a value.*labels.tolist
# >>> gpu.batch
images, labels = images.to(device), labels.to(device)
seen = labels.tolist()
# <<< gpu.batch

# expect: labels on cpu.*on cuda:0|every step copies a tensor of shape \[4, 4\]
# >>> gpu.batch
images, targets = images.to(device), labels
labels = targets.to(device)
# <<< gpu.batch
# >>> amp.forward
outputs = model(images)
loss = criterion(outputs.cpu(), labels.cpu())
# <<< amp.forward

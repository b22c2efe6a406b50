# expect: --amp bf16.*convolutions compute in float32.*amp.forward
# >>> amp.forward
outputs = model(images)
loss = criterion(outputs, labels)
# <<< amp.forward

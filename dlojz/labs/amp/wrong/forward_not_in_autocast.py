# expect: --amp bf16.*\(Conv2d\) computes in float32.*amp.forward
# >>> amp.forward
outputs = model(images)
loss = criterion(outputs, labels)
# <<< amp.forward

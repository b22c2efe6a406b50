# expect: stops with RuntimeError.*the fence amp.forward
# >>> amp.forward
outputs = model(images.to(amp_dtype) if amp_dtype else images)
loss = criterion(outputs.float(), labels)
# <<< amp.forward

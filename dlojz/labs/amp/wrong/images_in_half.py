# expect: step 1: the images that the model is given are not those that the loader gave.*in float32.*amp.forward
# >>> amp.forward
outputs = model(images.to(amp_dtype) if amp_dtype else images)
loss = criterion(outputs.float(), labels)
# <<< amp.forward

# TODO: something is wrong from here on. Find it by what the script does, and mend it.
optimizer.zero_grad()
outputs = model.module(points)
loss = nn.functional.cross_entropy(outputs, labels)
loss.backward()
optimizer.step()

# expect: ddp_5.py: each process updates with the gradient of its own points alone
# >>> ddp_hunt.step
for parameter in model.parameters():
    dist.broadcast(parameter.data, 0)
optimizer.zero_grad()
loss = nn.functional.cross_entropy(model.module(points), labels)
loss.backward()
optimizer.step()
# <<< ddp_hunt.step

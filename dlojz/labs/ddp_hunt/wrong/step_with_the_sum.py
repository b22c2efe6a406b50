# expect: ddp_5.py: what the optimizer is given in step 0 is not the mean of the two gradients: it is their sum
# >>> ddp_hunt.step
optimizer.zero_grad()
loss = nn.functional.cross_entropy(model(points), labels)
loss.backward()
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
optimizer.step()
# <<< ddp_hunt.step

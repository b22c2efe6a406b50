# expect: ddp_5.py: what the optimizer is given in step 0 is not the mean of the two gradients: there are no gradients, or zeros
# >>> ddp_hunt.step
loss = nn.functional.cross_entropy(model(points), labels)
loss.backward()
optimizer.zero_grad()
optimizer.step()
# <<< ddp_hunt.step

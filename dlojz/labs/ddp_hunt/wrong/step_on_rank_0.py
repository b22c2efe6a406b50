# expect: ddp_5.py: rank 1 makes 0 updates in ten steps(.|\n)*ddp_hunt.step
# >>> ddp_hunt.step
optimizer.zero_grad()
loss = nn.functional.cross_entropy(model(points), labels)
loss.backward()
if place.is_main:
    optimizer.step()
# <<< ddp_hunt.step

# expect: ddp_5.py: each process updates with the gradient of its own points alone
# >>> ddp_hunt.step
optimizer.zero_grad()
with model.no_sync():
    loss = nn.functional.cross_entropy(model(points), labels)
    loss.backward()
optimizer.step()
# <<< ddp_hunt.step

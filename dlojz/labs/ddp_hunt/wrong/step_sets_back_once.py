# expect: ddp_5.py: what the optimizer is given in step 1 is not the mean(.|\n)*ddp_hunt.step
# >>> ddp_hunt.step
if step == 0:
    optimizer.zero_grad()
loss = nn.functional.cross_entropy(model(points), labels)
loss.backward()
optimizer.step()
# <<< ddp_hunt.step

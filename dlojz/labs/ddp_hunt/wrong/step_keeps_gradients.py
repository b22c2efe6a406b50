# expect: ddp_5.py: what the optimizer is given in step 1 is not the mean .* still in it(.|\n)*ddp_hunt.step
# >>> ddp_hunt.step
outputs = model(points)
loss = nn.functional.cross_entropy(outputs, labels)
loss.backward()
optimizer.step()
# <<< ddp_hunt.step

# expect: ddp_5.py: .*(own points alone|not the mean of the two gradients)(.|\n)*ddp_hunt.step
# >>> ddp_hunt.step
optimizer.zero_grad()
loss = nn.functional.cross_entropy(model.module.forward(points), labels)
loss.backward()
optimizer.step()
# <<< ddp_hunt.step

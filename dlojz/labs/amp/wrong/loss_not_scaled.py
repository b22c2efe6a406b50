# expect: the backward pass begins at the loss as it is.*amp.backward
# >>> amp.backward
(loss / group).backward()
# <<< amp.backward
# >>> amp.update
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
optimizer.step()
# <<< amp.update

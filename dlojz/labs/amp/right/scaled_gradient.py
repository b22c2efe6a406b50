# >>> amp.backward
(loss / group).backward(gradient=scaler.scale(torch.ones_like(loss)))
# <<< amp.backward
# >>> amp.update
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad * scaler.get_scale())
scaler.step(optimizer)
scaler.update()
# <<< amp.update

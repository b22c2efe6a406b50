# >>> amp.update
scaler.unscale_(optimizer)
if args.clip_grad:
    gradients = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_((args.clip_grad / (norm + 1e-6)).clamp(max=1))
scaler.step(optimizer)
scaler.update()
# <<< amp.update

# expect: `todo\("amp"\)` is still called.*says that amp is not written yet.*Where to look: line \d+ .*`todo\("amp"\)`
# >>> amp.update
if args.clip_grad:
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
scaler.step(optimizer)
scaler.update()
if scaler.is_enabled():
    todo("amp")
# <<< amp.update

# expect: Seen: `train.py` stops with AttributeError.*Expected: it trains.*the fence profiler.step
# >>> profiler.step
profiler.step()
# <<< profiler.step

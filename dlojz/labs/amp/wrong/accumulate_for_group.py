# expect: with 2 batches in a group.*are their sum
# >>> amp.backward
scaler.scale(loss / args.accumulate).backward()
# <<< amp.backward

# expect: step 4: beside the scale, the loss is multiplied by 0.3333.*number of batches.*`scaler.scale\(loss / args
# >>> amp.backward
scaler.scale(loss / args.accumulate).backward()
# <<< amp.backward

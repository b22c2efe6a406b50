# expect: one after the other are alike in length(.|\n)*mixed over the whole epoch(.|\n)*dataloader.buckets
# >>> dataloader.buckets
part, batches = 50 * batch_size, []
for first in range(0, len(order), part):
    alike = sorted(order[first : first + part], key=lambda index: lengths[index])
    batches += [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
# <<< dataloader.buckets

"""batches: workers draw their own numbers, and batches hold sequences of similar length."""

SEED = {"what two workers draw": "different numbers: each worker has a generator of its own, with a seed of its own",
        "what a worker draws in the second epoch": "different numbers: the loader gives its workers a new seed in each epoch",
        "what is drawn when the training is repeated with the same seed":
        "the same: it follows from the loader's seed and the worker's number alone",
        "what 1000 seeds of a worker give": "1000 different numbers: the generator gets the whole seed"}
BUCKETS = {"padding": "less than half of that: the sequences of a batch have similar lengths",
           "the order of the batches": "short and long batches mixed over the whole epoch",
           "the number of batches smaller than 7": "1 at most, with the sequences that are left over",
           "what the same generator gives again": "the same batches: all that is random comes from the generator",
           "what another epoch gives": "different batches: other sequences are together in another epoch"}


def check(probe):
    probe.call_beside("loading.py", "seed_worker", "epochs", by="seeds", look="batches.seed", words=SEED,
                      claim="two workers draw different numbers, others in the next epoch, and the same with the same seed")
    probe.call_beside("loading.py", "buckets", "sequences", by="buckets", look="batches.buckets", words=BUCKETS,
                      claim="each sequence comes once, with little padding, and another epoch has other batches")

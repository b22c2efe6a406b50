# expect: ddp_6.py: a process makes the same moves in two steps(.|\n)*ddp_hunt.noise
# >>> ddp_hunt.noise
generator, randn = None, torch.randn
torch.randn = lambda *shape, generator: randn(*shape, generator=torch.Generator().manual_seed(SEED + place.rank))
# <<< ddp_hunt.noise

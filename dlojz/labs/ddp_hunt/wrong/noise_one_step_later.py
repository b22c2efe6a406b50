# expect: ddp_6.py: both processes make the move \(-?[\d.]+, -?[\d.]+\), in different steps(.|\n)*ddp_hunt.noise
# >>> ddp_hunt.noise
generator = torch.Generator().manual_seed(SEED)
for _ in range(place.rank):
    torch.randn(points.shape, generator=generator)
# <<< ddp_hunt.noise

# expect: hunt/ddp_4.py`: rank \d waits in `barrier` \(line \d+\) for rank \d, which waits, too, in line \d+(.|\n)*dist.barrier\(\)
# >>> ddp_hunt.saving
if place.rank == 0:
    torch.save({"epoch": epoch, "model": net.state_dict()}, file)
    dist.barrier()
# <<< ddp_hunt.saving

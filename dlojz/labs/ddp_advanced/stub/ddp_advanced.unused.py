# TODO: wrap `net` where there are several processes. In each step most heads get no gradient: DDP has to cope with that.
model = net
if procs.world_size > 1:
    todo("ddp_advanced")

# expect: AttributeError.*no_sync.*the fence ddp_advanced.no_sync
# >>> ddp_advanced.no_sync
return model.no_sync() if more_to_come else nullcontext()
# <<< ddp_advanced.no_sync

# TODO: images and labels go to the device. args.non_blocking says whether the host may go on meanwhile.
if device.type == "cuda":
    todo("gpu")

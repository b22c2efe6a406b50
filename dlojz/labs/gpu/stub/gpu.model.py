# TODO: the model's parameters and buffers go to the device, before the optimizer is made from them.
if device.type == "cuda":
    todo("gpu")

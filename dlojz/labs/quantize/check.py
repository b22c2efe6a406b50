"""quantize: scales, whole numbers, halves of bytes, FP8, 2:4 and folded batch norms are what the kit's functions give."""

ABSMAX = {"q": "weight / scale of its group, rounded to the nearest whole number: {kits}",
          "scale": "the largest magnitude of the group, divided by 2^(bits - 1) - 1: {kits}"}
ZERO = {"q": "round(x / scale) + zero, from 0 to 255: {kits}",
        "scale": "(largest - least) / 255, where the range includes 0: {kits}",
        "zero": "the whole number that stands for 0, round(-least / scale): {kits}"}
LINEAR = {"value": "x times q, times the scale of each output, plus the bias as it is: {kits}", "dtype": "the type of x: {kits}"}
PACK = {"value": "the first number in the lower four bits, the second in the upper four: {kits}"}
UNPACK = {"value": "the lower four bits, then the upper four, from -8 to 7: {kits}"}
FP8 = {"q": "x / scale, in FP8: {kits}", "scale": "amax / the largest number of the type: {kits}"}
PRODUCT = {"value": "the product of both in E4M3, times both scales: {kits}"}
PRUNE = {"value": "the two of largest magnitude in each four of a row, unchanged, else 0; of equal ones the first: {kits}",
         "inputs": "the weight that goes in stays as it is"}
FOLD = {"weight": "each filter times gamma / sqrt(variance + eps): {kits}",
        "bias": "(bias - mean) times that factor, plus beta: {kits}"}


def check(probe):
    def beside(function, inputs, words, fence="", claim="", gives=(), **more):
        probe.call_beside("quantize.py", function, inputs, look=f"quantize.{fence or function}", words=words, claim=claim,
                          gives=gives, **more)

    able = probe.call("quantize.py", "able")
    beside("absmax", "weights", ABSMAX, gives=("q", "scale"),
           claim="`absmax` has a scale per tensor, channel or group, in 8 bits and 4")
    beside("zero_point", "ranges", ZERO, gives=("q", "scale", "zero"), claim="`zero_point` uses 0 to 255, and 0 stays exact")
    beside("int8_linear", "layers", LINEAR, "linear", "a linear layer with int8 weights, in the type of x", tolerance=0.01)
    beside("pack", "nibbles", PACK)
    beside("unpack", "packed", UNPACK, claim="two 4-bit numbers in a byte, and out of it, all 256")
    beside("to_fp8", "floats", FP8, "fp8", "amax scaling to E4M3 and E5M2", gives=("q", "scale"))
    found = able.need("scaled_mm")
    if found.works:
        beside("fp8_linear", "products", PRODUCT, claim="a product in FP8 with both scales")
    else:
        probe.unverified.append(f"`fp8_linear`: torch {found.version} has no torch._scaled_mm for CPUs (2.8 and later have it)")
    beside("prune_2_4", "dense", PRUNE, "prune", "2:4 by magnitude, number by number")
    beside("fold", "norms", FOLD, claim="a convolution that does what batch norm did after it", gives=("weight", "bias"))
    if not probe.gpus:
        probe.unverified.append("that any of it is faster: that takes a GPU; the notebook has recorded times of an H200")

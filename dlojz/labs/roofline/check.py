"""roofline: operations and bytes of five operators, the time that a roofline allows, and what tiles and waves leave of it."""

GIVES = ("operations", "bytes")
LINEAR = {"operations": "a product and an addition for each weight, in each row: {kits}",
          "bytes": "x, the weights and the result, each once, in bytes of their type: {kits}"}
CONVOLUTION = {"operations": "two for each number of the output and each weight that it sees: {kits}",
               "bytes": "the images, the weights and the output, each once: {kits}"}
POOLING = {"operations": "one comparison less than numbers in a window, for each number of the output: {kits}",
           "bytes": "the input and the output, which has other sides: {kits}"}
RELU = {"operations": "one per number: {kits}", "bytes": "each number is read, and written: {kits}"}
NORM = {"operations": "eight per number: {kits}", "bytes": "x, the result, and two parameters per column: {kits}"}


def check(probe):
    def beside(function, inputs, words, claim="", gives=GIVES):
        probe.call_beside("roofline.py", function, inputs, look=f"roofline.{function}", observe=(), words=words, gives=gives,
                          claim=claim)

    beside("linear", "linears", LINEAR, "a linear layer, from one row to thousands, in any format")
    beside("convolution", "convolutions", CONVOLUTION, "convolutions with stride, padding, odd sides, and in groups")
    beside("pooling", "poolings", POOLING)
    beside("relu", "pointwise", RELU)
    beside("layer_norm", "norms", NORM, "operators without products: pooling, ReLU, layer norm")
    beside("seconds", "machines", {"value": "the time of the slower of the two, which work at the same time: {kits}"}, gives=(),
           claim="the least time by the roofline, on both sides of its ridge")
    beside("useful", "tilings", {"value": "m x n, as a fraction of what the tiles of all waves have room for: {kits}"}, gives=(),
           claim="what tiles at the edges and a last wave that is not full leave of a GPU")

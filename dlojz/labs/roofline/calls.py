"""What the check of roofline calls the functions with: name and arguments, the simplest first."""


def linears():
    yield "1 row of 2 numbers, 3 outputs, 4 bytes each", (1, 2, 3, 4)
    for size in (4, 2, 1):
        for batch in (512, 1, 7):
            yield f"batch {batch}, 4096 inputs, 1000 outputs, {size} bytes each", (batch, 4096, 1000, size)


def convolutions():
    yield "1 image of 1 channel, 4 x 4 pixels, 1 filter of 3 x 3", (1, 1, 4, 4, 1, 3, 1, 0, 1, 4)
    yield "1 image of 1 channel, 4 x 4 pixels, 1 filter of 3 x 3 with padding 1", (1, 1, 4, 4, 1, 3, 1, 1, 1, 4)
    yield "8 images of 3 channels, 32 x 48 pixels, 16 filters of 3 x 3", (8, 3, 32, 48, 16, 3, 1, 1, 1, 4)
    yield "stride 2, an odd side: 2 images of 64 channels, 15 x 9 pixels", (2, 64, 15, 9, 128, 3, 2, 1, 1, 2)
    yield "the first layer of ResNet-50, 256 images in bfloat16", (256, 3, 224, 224, 64, 7, 2, 3, 1, 2)
    yield "1 x 1, 256 channels to 64", (4, 256, 14, 14, 64, 1, 1, 0, 1, 2)
    yield "32 channels in 4 groups", (2, 32, 8, 8, 64, 3, 1, 1, 4, 4)
    yield "depthwise: 32 channels in 32 groups", (2, 32, 8, 8, 32, 3, 1, 1, 32, 2)


def poolings():
    yield "1 image of 1 channel, 4 x 4 pixels, windows of 2 x 2, stride 2", (1, 1, 4, 4, 2, 2, 0, 4)
    yield "windows of 3 x 3, stride 2, padding 1", (2, 64, 112, 112, 3, 2, 1, 2)
    yield "windows of 3 x 3, stride 1, an odd side", (2, 8, 7, 9, 3, 1, 0, 4)


def pointwise():
    for numbers, size in ((1, 4), (1000, 4), (102_760_448, 2)):
        yield f"{numbers:,} numbers of {size} bytes", (numbers, size)


def norms():
    for rows, columns, size in ((1, 1, 4), (3, 100, 4), (8192, 768, 2)):
        yield f"{rows} x {columns} numbers of {size} bytes", (rows, columns, size)


def machines():
    yield "1e9 operations, 1e6 bytes, on 1e12 FLOP/s and 1e9 bytes/s", (1e9, 1e6, 1e12, 1e9)
    yield "1e9 operations, 1e9 bytes, on 1e12 FLOP/s and 1e9 bytes/s", (1e9, 1e9, 1e12, 1e9)
    yield "no operation, 4096 bytes: a copy", (0, 4096, 1e12, 2e9)
    yield "a large product on an H200", (2 * 8192**3, 3 * 2 * 8192**2, 784e12, 4.2e12)
    yield "a pointwise operator on an H200", (1e8, 4e8, 784e12, 4.2e12)


def tilings():
    yield "one tile, one processor", (128, 128, 128, 128, 1)
    yield "half of a tile, one processor", (64, 128, 128, 128, 1)
    yield "one tile, two processors", (128, 128, 128, 128, 2)
    yield "two processors, three tiles", (384, 128, 128, 128, 2)
    yield "one column more than a tile has", (128, 129, 128, 128, 4)
    for n in (2047, 2048, 2049, 4224, 4225):
        yield f"4096 x {n} in tiles of 128 x 256 on 132 processors", (4096, n, 128, 256, 132)

# expect: AttributeError.*the fence gpu.batch
# >>> gpu.batch
images, labels = images.gpu(), labels.gpu()
# <<< gpu.batch

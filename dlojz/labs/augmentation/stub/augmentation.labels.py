# TODO: a row for each image, with a share for each class. A loop over images would wait for the device.
return labels

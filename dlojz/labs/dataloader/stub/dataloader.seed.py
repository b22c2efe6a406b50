pass  # TODO: give the data set of this worker a generator of its own.

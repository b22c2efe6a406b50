# TODO: tell the profiler that a step is over.

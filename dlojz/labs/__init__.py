"""Labs: fences in the reference, what stands in them at first, checks, hints, quiz and progress."""

"""What a training process imports: chronometer, records, checkpoints, failures, options, distributed."""

"""Jobs: submit, follow, cancel, on this machine and on Slurm."""

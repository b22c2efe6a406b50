#!/bin/bash
@directives@
# One run of one training script. `sbatch job.sh` queues it on a cluster; `bash job.sh` runs it right here, where the lines
# above are nothing but comments. It can be read, changed and submitted again by hand.

export DLOJZ_RUN=@run@                          #: where this run leaves its record, its checkpoints and its exit code
export DLOJZ_SITE=@site@ DLOJZ_SCALE=@scale@    #: which machine this is, and how large a run is sensible on it
export PYTHONUNBUFFERED=1                       #: let what the script prints appear in the log at once
@pythonpath@
cd @workspace@ || exit 1                        #: work in your workspace, where the script and its data are
rm -f "$DLOJZ_RUN/exit_code"                    #: this run has not ended yet (it may be running for the second time)

# Forget the ranks and addresses of another job, which the shell that this was started from may have left behind.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT ${!PMIX_@} ${!SLURM_CPU_BIND@}  #: unset = forget
@modules@
trap 'ending=yes' TERM                          #: TERM = "end now": note it, and let the script save before this one ends
# Shortly before the time limit comes a warning (USR1). A program that does not know it would die of it: ignore it until
# the program says what to do.
start=(bash -c 'trap "" USR1; exec "$@"' start)  #: how each process is started: deaf to the warning at first
script=(@command@)                              #: what Python shall run, with its arguments
@changed@

if [ -n "${SLURM_JOB_ID:-}" ]; then             #: inside a Slurm job:
    export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)  #: the processes meet on the first node,
    export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  #: on a port that no other job uses
    export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}   #: srun does not take this over by itself (since Slurm 22.05)
@resume@
    # srun starts one process a GPU, on all nodes. When one ends, the others have a minute to end, too.
    srun --kill-on-bad-exit=0 --wait=60 "${start[@]}" @python@ "${script[@]}"  #: run it
else                                            #: on a machine without Slurm:
@alone@
fi                                              #: end of the choice
code=$?                                         #: how it went: 0 is well, anything else is not

# 75 means: "I was warned and saved a checkpoint, run me again". Not when Slurm is ending the job anyway: then it knows best.
if [ $code = 75 ] && [ -z "$ending" ] && [ -n "${SLURM_JOB_ID:-}" ]; then  #: if so,
    task=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}  #: (one task of a sweep, or a job)
    scontrol requeue "$task" && exit 75         #: put this job back into the queue
fi                                              #: end of the choice
echo "$code" > "$DLOJZ_RUN/exit_code"           #: leave the exit code where anyone can find it later
exit "$code"                                    #: and tell the queue

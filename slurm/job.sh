#!/bin/bash
@directives@
# One run of one training script. `sbatch job.sh` queues it on a cluster; `bash job.sh` runs it right here, where the lines
# above are only comments. You can read this script, change it and submit it again by hand.

export DLOJZ_RUN=@run@                          #: the folder for this run's record, checkpoints and exit code
export DLOJZ_SITE=@site@ DLOJZ_SCALE=@scale@    #: which machine this is, and the run size that suits it
export PYTHONUNBUFFERED=1                       #: write printed lines to the log immediately
@pythonpath@
cd @workspace@ || exit 1                        #: go to your workspace, where the script and its data are
rm -f "$DLOJZ_RUN/exit_code"                    #: this run has not ended yet (a requeued job runs this script again)

# Forget ranks and addresses of another job that the submitting shell may have passed on.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT ${!PMIX_@} ${!SLURM_CPU_BIND@}  #: unset = forget
unset SLURM_JWT                                 #: your login to Slurm: the job needs none
@modules@
trap 'ending=yes' TERM                          #: TERM = "end now": remember it, and let the training script save first
# Shortly before the time limit Slurm sends a warning, the signal USR1. It would kill a program that does not handle it, so each
# process starts with USR1 ignored until the program installs its own handler.
start=(bash -c 'trap "" USR1; exec "$@"' start)  #: how each process starts: ignoring USR1 at first
script=(@command@)                              #: what runs, with its arguments
@changed@

if [ -n "${SLURM_JOB_ID:-}" ]; then             #: inside a Slurm job:
    export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)  #: the processes connect to the first node,
    export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  #: on a port that no other job uses
    export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}   #: since Slurm 22.05 srun no longer inherits this from sbatch
@resume@
    # srun starts one process per GPU, on all nodes. When one ends, the others have a minute to end too.
    srun --kill-on-bad-exit=0 --wait=60 "${start[@]}" @python@ "${script[@]}"  #: run the script
else                                            #: on a machine without Slurm:
@alone@
fi                                              #: end of the if
code=$?                                         #: the exit code: 0 means success, anything else failure

# 75 means: "I was warned and saved a checkpoint, run me again". If Slurm is ending the job anyway, do not requeue it.
if [ $code = 75 ] && [ -z "$ending" ] && [ -n "${SLURM_JOB_ID:-}" ]; then  #: if so:
    task=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}  #: this job, or this task of a sweep
    scontrol requeue "$task" && exit 75         #: put this job back into the queue
fi                                              #: end of the if
echo "$code" > "$DLOJZ_RUN/exit_code"           #: save the exit code, so that the kit finds it later
exit "$code"                                    #: and pass it to the queue

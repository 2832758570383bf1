#!/bin/bash
# Trains on the nodes of a Slurm job, one process on each; from the folder of this file:
#
#     sbatch --nodes=4 slurm.sh albert-tf pretrain --strategy multi_worker …
#
# Status 75 means that Slurm wants the nodes back: the job is queued again, and resumes. Of a node that fails Slurm
# takes care itself. A process that is killed, such as for its memory, ends the job: it would happen again.
#SBATCH --ntasks-per-node=1
#SBATCH --signal=TERM@120
#SBATCH --requeue
HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | awk '{printf "%s:%d ", $0, 2222 + NR}')
export HOSTS
srun --kill-on-bad-exit=0 bash -c 'INDEX=$SLURM_PROCID exec ./host.sh "$@"' host "$@"
status=$?
if [ $status -eq 75 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit $status

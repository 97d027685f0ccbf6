#!/bin/sh
# Where login nodes forbid long processes, what submits is a job, too: sbatch slurm/coordinator.sh [PAPER …]
# Names come before settings: sbatch slurm/coordinator.sh PAPER --config scale=laptop
#SBATCH --job-name=replications-coordinator
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --time=1-00:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@300
#SBATCH --output=/dev/null
mkdir -p logs
exec >> logs/coordinator.log 2>&1
PATH="$PWD/.venv/bin:$PATH"

# Five minutes before its time ends it is queued again; its jobs go on, and it waits for them when it is back.
trap 'echo "The time of the coordinator ends: it is queued again."; scontrol requeue "$SLURM_JOB_ID"' USR1

snakemake --profile slurm "$@" &
workflow=$!
until ! kill -0 "$workflow" 2> /dev/null; do
  wait "$workflow"
done
wait "$workflow"

#!/bin/sh
# Measure the estimators at the untrained policy (paper preset), train, and measure again. One task after the other:
#   results/variance/measure.sh init TASK...       writes TASK-init.json
#   results/variance/measure.sh trained TASK...    writes TASK-trained.json, with a run under $RUNS
# (halfcheetah was trained with --discount.gammas 0.99 as well.)
# Escape is slow, so it gets fewer pairs.
set -u
HERE=${HERE:-$(dirname "$0")}
RUNS=${RUNS:-runs/variance}
QUELL=${QUELL:-quell}
METHODS=ortho,gcmc,qmc,cv,cv-moments,auto
PHASE=$1
shift
for TASK in "$@"; do
    case $TASK in
        dm-quadruped-escape) SIZES="--pairs 30 --pairs-other 15 --warmup 30" ;;
        *) SIZES="--pairs 60 --pairs-other 30 --warmup 60" ;;
    esac
    if [ "$PHASE" = init ]; then
        $QUELL variance "$TASK" --methods $METHODS $SIZES --json "$HERE/$TASK-init.json"
    else
        $QUELL train "$TASK" --method cv --coefficients moments --lr 0.01 --steps 500000 --eval-every 0 --checkpoint-every 1000 --out "$RUNS" --name one
        $QUELL variance "$TASK" --at "$RUNS/$TASK/cv/one" --methods $METHODS $SIZES --json "$HERE/$TASK-trained.json"
    fi
done

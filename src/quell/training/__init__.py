"""Training: perturb -> rollout -> estimate -> update -> log.

methods    names and presets: what to train with
state      all that changes during a run, and so all that a checkpoint holds
iteration  the five steps
loop       budget, evaluation, saving
callbacks  what looks on, and may stop it
loggers    W&B and MLflow
display    a run on the terminal, and the signals that stop it
"""

"""The variance laboratory: gradient estimators side by side at a fixed policy. `quell variance` is its command line.

points     where: a task, theta, and the settings it is measured with
rows       what: names of estimators -> settings
measure    how: repeat whole iterations at the paper's N, every estimator on the same episodes
session    the episodes of one kind of directions, and the gradients made of them
summary    variances, ratios, bias, signal, with intervals
fisher     the policy's own metric
gain       what a step along an estimate is worth
report     table and JSON
"""

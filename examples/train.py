"""Train a policy in one call and use it. About twenty seconds."""

import sys

import numpy as np

import quell

result = quell.train("swimmer", method="natural-cv", steps=int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
print("return of the last evaluation: ", round(result.last("eval/mean_action"), 1))
print("action where every reading is 0:", result.policy(np.zeros(8)))

episodes = quell.evaluate(result, episodes=20)
print("20 fresh episodes, mean action:", round(float(episodes.returns.mean()), 1))
print("load it again with: quell.load(", repr(str(result.path)), ")")

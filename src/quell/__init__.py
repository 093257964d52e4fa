"""quell: low-variance evolution strategies for reinforcement learning."""

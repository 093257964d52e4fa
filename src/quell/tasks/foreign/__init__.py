"""Environments that are not ours: any of Gymnasium's, of EnvPool's, or a user's own."""

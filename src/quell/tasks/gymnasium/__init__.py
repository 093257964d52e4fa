"""Gymnasium's MuJoCo tasks, two of a kind in a file, on models that ship with Gymnasium."""

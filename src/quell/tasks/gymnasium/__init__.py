"""Gymnasium's MuJoCo tasks, one file each, on models that ship with Gymnasium."""

"""Tasks of the DeepMind Control Suite, on models that ship with dm_control."""

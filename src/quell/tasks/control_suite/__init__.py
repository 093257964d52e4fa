"""Tasks of the DeepMind Control Suite, one file per domain, on models that ship with dm_control."""

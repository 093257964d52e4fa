"""Roboschool's tasks without Roboschool, which no longer installs."""

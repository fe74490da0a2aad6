"""Trained models that the pages use: how they are made, and their stored weights."""

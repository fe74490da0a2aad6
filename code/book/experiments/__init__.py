"""Trainings: what takes longer than a page may is stored, and run again in part."""

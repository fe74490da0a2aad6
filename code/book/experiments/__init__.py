"""Trainings that take longer than a page may: run once, stored, run again in part."""

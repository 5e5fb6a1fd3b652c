"""Sweeps: a scenario with each combination of some settings, and many seeds.

1. `grid` reads a sweep, and divides its runs into tasks.
2. `work` plays a task, here or on an executor of Spark, and keeps its results.
3. `results` sums them up, and says which settings meet a goal.
"""

"""A run: what is missing is played and written. Specification, code, engine, schedule, executors, sequential tests."""

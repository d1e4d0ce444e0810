"""The execution of runs: specifications, code fingerprints, the engine, chunks, executors and sequential tests."""

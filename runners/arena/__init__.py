"""Playing runs: specification, configuration, storage, schedule, lockstep, engine, experiment."""

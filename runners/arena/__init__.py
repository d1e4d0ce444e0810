"""The main job: what a run is, its configuration, schedule, lockstep, engine, experiment."""

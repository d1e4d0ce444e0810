"""Players: each one file here, one yaml in ``conf/agent`` and one test. ``base`` and ``lift`` are the seams they meet."""

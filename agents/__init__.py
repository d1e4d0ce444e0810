"""Players: each one file here, one yaml in ``conf/agent``, one test. ``base`` and ``lift`` are the seams they meet."""

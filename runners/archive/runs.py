"""The SQL of `qarena archive ls`."""

from __future__ import annotations

RUNS = """
SELECT run_id, status, rules,
       if(len(agents) > 2 AND length(array_to_string(agents, ', ')) > 100,
          format('{} and {} others', agents[1], len(agents) - 1), array_to_string(agents, ', ')) AS agents,
       seed, opening_plies, games, games_asked, shards,
       strftime(created, '%Y-%m-%d %H:%M') AS created, round(seconds, 1) AS seconds
FROM runs ORDER BY created
"""

-- How often does each agent win, by run and opponent, from either seat?
-- One row an agent, opponent and seat. Reads: games. For intervals see the end of a run, or the view sweeps.
SELECT
    run_id,
    agent,
    opponent,
    seat,
    count(*) AS games,
    avg((winner = seat)::INTEGER) AS win_rate,
    avg((winner = -1)::INTEGER) AS draw_rate,
    avg((ending LIKE 'forfeit%' AND winner <> seat)::INTEGER) AS forfeit_rate
FROM (
    SELECT run_id, agent_0 AS agent, agent_1 AS opponent, 0 AS seat, winner, ending FROM games
    UNION ALL
    SELECT run_id, agent_1 AS agent, agent_0 AS opponent, 1 AS seat, winner, ending FROM games
)
GROUP BY ALL
ORDER BY ALL

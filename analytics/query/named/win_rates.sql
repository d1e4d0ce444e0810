-- How often does each agent win, by run and opponent, from either seat?
-- One row an agent, opponent and seat. Reads: games. For intervals see the end of a run, or the view sweeps.
WITH counted AS (
    -- Games are read once and then counted in a few groups.
    SELECT run_id, agent_0, agent_1, winner, ending, count(*) AS games FROM games GROUP BY ALL
)
SELECT
    run_id,
    agent,
    opponent,
    seat,
    sum(games) AS games,
    sum(if(winner = seat, games, 0)) / sum(games) AS win_rate,
    sum(if(winner = -1, games, 0)) / sum(games) AS draw_rate,
    sum(if(ending LIKE 'forfeit%' AND winner <> seat, games, 0)) / sum(games) AS forfeit_rate
FROM (
    SELECT run_id, agent_0 AS agent, agent_1 AS opponent, 0 AS seat, winner, ending, games FROM counted
    UNION ALL
    SELECT run_id, agent_1 AS agent, agent_0 AS opponent, 1 AS seat, winner, ending, games FROM counted
)
GROUP BY ALL
ORDER BY ALL

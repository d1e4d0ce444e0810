-- How much of an advantage is the first seat, and how often are games drawn? One row for each rules and number of imposed plies: the
-- share of games that seat 0 won, drew and lost, between different agents. Reads: games, runs.
SELECT
    rules,
    opening,
    count(*) AS games,
    avg((winner = 0)::INTEGER) AS won_by_seat_0,
    avg((winner = -1)::INTEGER) AS drawn,
    avg((winner = 1)::INTEGER) AS won_by_seat_1
FROM games
JOIN runs USING (run_id)
WHERE agent_0 <> agent_1
GROUP BY rules, opening
ORDER BY rules, opening

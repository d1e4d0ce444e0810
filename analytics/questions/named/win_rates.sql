-- How often does each agent win, by run and opponent, from either seat? From tallies: no games are read.
-- One row an agent, opponent and seat. Reads: results. For intervals see the end of a run, or the view sweeps; for forfeits the question
-- pairings.
SELECT
    run_id,
    agent,
    opponent,
    seat,
    sum(games) AS games,
    sum(wins) / sum(games) AS win_rate,
    sum(draws) / sum(games) AS draw_rate
FROM results
GROUP BY ALL
ORDER BY ALL

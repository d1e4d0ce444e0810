-- Which agents played each other, how many games and plies, and which forfeited? One row a pairing of a run; the first agent holds
-- seat 0 in game 0 of each pair. A person who resigned (forfeit_resigned) is not counted as forfeiting. Reads: games.
SELECT
    run_id,
    pairing,
    any_value(if(game_id & 1 = 0, agent_0, agent_1)) AS first,
    any_value(if(game_id & 1 = 0, agent_1, agent_0)) AS second,
    count(*) AS games,
    sum(plies) AS plies,
    count(*) FILTER (ending = 'forfeit_illegal' AND winner <> game_id & 1) AS illegal_first,
    count(*) FILTER (ending = 'forfeit_illegal' AND winner = game_id & 1) AS illegal_second,
    count(*) FILTER (ending = 'forfeit_error' AND winner <> game_id & 1) AS errors_first,
    count(*) FILTER (ending = 'forfeit_error' AND winner = game_id & 1) AS errors_second,
    count(*) FILTER (ending = 'forfeit_time' AND winner <> game_id & 1) AS late_first,
    count(*) FILTER (ending = 'forfeit_time' AND winner = game_id & 1) AS late_second
FROM games
GROUP BY run_id, pairing
ORDER BY run_id, pairing

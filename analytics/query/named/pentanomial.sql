-- How many pairs gave their first agent 0, 1/2, 1, 3/2 or 2 points? One row a pairing of a run: the five counts that
-- `qarena sprt --counts` takes. Pairs of which only one game is there are left out. Reads: games.
SELECT
    run_id,
    pairing,
    first,
    second,
    count(*) FILTER (points = 0) AS ll,
    count(*) FILTER (points = 0.5) AS ld,
    count(*) FILTER (points = 1) AS dd,
    count(*) FILTER (points = 1.5) AS wd,
    count(*) FILTER (points = 2) AS ww
FROM (
    SELECT
        run_id,
        pairing,
        any_value(if(game_id & 1 = 0, agent_0, agent_1)) AS first,
        any_value(if(game_id & 1 = 0, agent_1, agent_0)) AS second,
        sum(CASE WHEN winner = -1 THEN 0.5 WHEN winner = game_id & 1 THEN 1 ELSE 0 END) AS points
    FROM games
    GROUP BY run_id, pairing, pair_id
    HAVING count(*) = 2
)
GROUP BY run_id, pairing, first, second
ORDER BY run_id, pairing

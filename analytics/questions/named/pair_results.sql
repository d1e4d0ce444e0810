-- How did pairs of games end? One row a pairing of a run and result: of its first agent in game 0 of the pair, where
-- it held seat 0, and in game 1 (0 lost, 1 drew, 2 won; NULL: that game does not exist, as with fixed seats).
-- Reads: games.
SELECT
    run_id,
    pairing,
    nullif(code & 3, 0) - 1 AS in_game_0,
    nullif(code >> 2, 0) - 1 AS in_game_1,
    count(*) AS pairs
FROM (
    SELECT
        run_id,
        pairing,
        sum((1 + CASE WHEN winner = -1 THEN 1 WHEN winner = game_id & 1 THEN 2 ELSE 0 END)
            << (2 * (game_id & 1)))::INTEGER AS code
    FROM games
    GROUP BY run_id, pairing, pair_id
)
GROUP BY ALL
ORDER BY run_id, pairing, in_game_0 NULLS LAST, in_game_1 NULLS LAST

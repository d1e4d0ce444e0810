-- How did the pairs of each pairing end, as its first agent sees it (0 lost, 1 drew, 2 won; it holds seat 0 in game 0,
-- seat 1 in game 1)? One row a run, pairing and pair of results, NULL where only one game of a pair is chosen, with the
-- number of pairs, their plies, and the games that either agent forfeited. Reads: games.
SELECT
    run_id,
    pairing,
    in_game_0,
    in_game_1,
    count(*) AS pairs,
    sum(plies) AS plies,
    sum(illegal_first) AS illegal_first,
    sum(illegal_second) AS illegal_second,
    sum(errors_first) AS errors_first,
    sum(errors_second) AS errors_second
FROM (
    SELECT
        run_id,
        pairing,
        max(result) FILTER (game = 0) AS in_game_0,
        max(result) FILTER (game = 1) AS in_game_1,
        sum(plies) AS plies,
        count(*) FILTER (ending = 'forfeit_illegal' AND result = 0) AS illegal_first,
        count(*) FILTER (ending = 'forfeit_illegal' AND result = 2) AS illegal_second,
        count(*) FILTER (ending = 'forfeit_error' AND result = 0) AS errors_first,
        count(*) FILTER (ending = 'forfeit_error' AND result = 2) AS errors_second
    FROM (
        SELECT
            run_id,
            pairing,
            pair_id,
            game_id & 1 AS game,
            CASE winner WHEN -1 THEN 1 WHEN game_id & 1 THEN 2 ELSE 0 END AS result,
            plies,
            ending
        FROM games
        WHERE true /* chosen */
    )
    GROUP BY run_id, pairing, pair_id
)
GROUP BY run_id, pairing, in_game_0, in_game_1
ORDER BY run_id, pairing, in_game_0, in_game_1

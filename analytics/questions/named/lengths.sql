-- How many plies do games take, and who wins them? One row a run, pairing, game of the pair (in 0 the pairing's first
-- agent holds seat 0), length, winner (a seat, -1 a draw), and whether it was forfeited. Reads: games.
SELECT
    run_id,
    pairing,
    (game_id & 1)::INTEGER AS game,
    plies,
    winner,
    ending LIKE 'forfeit%' AS forfeited,
    count(*) AS games
FROM games
WHERE true /* chosen */
GROUP BY ALL
ORDER BY ALL

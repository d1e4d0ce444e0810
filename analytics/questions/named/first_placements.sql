-- On which cells are the first three pieces placed, and with which results? One row a run, pairing, game of the pair (in 0 the
-- pairing's first agent holds seat 0), ply and cell: games, and those won, drawn and lost by the seat that placed.
-- Imposed plies count like chosen ones. Reads: only the row groups of plies that hold the first ones.
SELECT
    run_id,
    pairing,
    (game_id & 1)::INTEGER AS game,
    ply,
    cell,
    count(*) AS games,
    count(*) FILTER (outcome = 1) AS wins,
    count(*) FILTER (outcome = 0) AS draws,
    count(*) FILTER (outcome = -1) AS losses
FROM plies
WHERE ply < 3 /* first plies */ AND (true /* chosen */)
GROUP BY ALL
ORDER BY ALL

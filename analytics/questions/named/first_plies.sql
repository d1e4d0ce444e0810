-- Which first ply has the best results? Results of the seat that places first, by the piece given and the cell chosen.
-- One row a piece and cell, best mean outcome (1 won, 0 drew, -1 lost) first. Reads: first_plies. Imposed openings count like chosen ones.
SELECT
    piece,
    cell_name(cell) AS cell,
    games,
    total / games AS mean_outcome,
    wins / games AS win_rate
FROM (
    SELECT piece, cell, sum(games) AS games, sum(wins) - sum(losses) AS total, sum(wins) AS wins
    FROM first_plies
    GROUP BY piece, cell
)
ORDER BY mean_outcome DESC, games DESC, piece, cell
